// The one thing that the API server reads out of a query beside `watch`: `fieldSelector=metadata.name=x` on a list or a
// watch names the object. Where its decoder of ListOptions fails on any parameter, it reads no name at all.
// Source: k8s.io/apimachinery/pkg/fields (ParseSelector, RequiresExactMatch).

import type { QueryPart } from './request-info.ts';

/** @returns the name, an empty string where none is read, undefined where it depends on a selector that isn't understood */
export function nameFromFieldSelector(query: readonly QueryPart[]): string | undefined {
  const value = (key: string): string | undefined => query.find((part) => part.key === key)?.value;
  const selector = value('fieldSelector');
  if (selector === undefined) return '';
  for (const key of ['limit', 'timeoutSeconds']) if (!isInt64(value(key) ?? '0')) return '';
  const terms = parseFieldSelector(selector);
  const name = terms?.find((term) => term.field === 'metadata.name' && term.equal)?.value ?? '';
  if (name === '' || name === '.' || name === '..' || /[/%]/.test(name)) return '';
  return isLabelSelector(value('labelSelector') ?? '') ? name : undefined;
}

interface Term {
  readonly field: string;
  readonly equal: boolean;
  readonly value: string;
}

/** Terms in the API server's order (sorted as text); undefined where it cannot be parsed. */
function parseFieldSelector(selector: string): Term[] | undefined {
  const terms: Term[] = [];
  const parts = (selector.match(/(?:\\[\s\S]|[^\\,])+\\?|\\$/g) ?? []).sort();
  for (const part of parts) {
    const found = /^([\s\S]*?)(!=|==|=)([\s\S]*)$/.exec(part);
    const value = found?.[3] === undefined ? undefined : unescapeValue(found[3]);
    if (found === null || value === undefined) return undefined;
    terms.push({ field: found[1] as string, equal: found[2] !== '!=', value });
  }
  return terms;
}

/** A backslash may stand before a backslash, a comma or an equals sign only; the last two never stand alone. */
function unescapeValue(text: string): string | undefined {
  if (!/^(?:\\[\\,=]|[^\\,=])*$/.test(text)) return undefined;
  return text.replace(/\\([\\,=])/g, '$1');
}

function isInt64(text: string): boolean {
  if (!/^[+-]?[0-9]{1,40}$/.test(text)) return false;
  const number = BigInt(text.replace(/^\+/, ''));
  return number >= -(2n ** 63n) && number < 2n ** 63n;
}

const KEY = '(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?';
const VALUE = '(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?';
const EXISTS = new RegExp(`^!? *${KEY}$`);
const EQUALS = new RegExp(`^${KEY} *(?:==|!=|=) *${VALUE}$`);
const SET = new RegExp(`^${KEY} +(?:in|notin) +\\(([^()]*)\\)$`);
const MEMBER = new RegExp(`^${VALUE}$`);

/** Whether the selector is one of the usual forms; the API server's own grammar is a little wider. */
function isLabelSelector(text: string): boolean {
  if (text === '') return true;
  const terms = text.match(/(?:\([^()]*\)|[^,()])+|,/g) ?? [];
  return (
    terms.join('') === text &&
    terms.every((term, i) => (i % 2 === 1 ? term === ',' : isRequirement(term.trim()))) &&
    terms.length % 2 === 1
  );
}

function isRequirement(term: string): boolean {
  if (EXISTS.test(term) || EQUALS.test(term)) return true;
  const members = SET.exec(term)?.[1];
  return members?.split(',').every((member) => MEMBER.test(member.trim())) ?? false;
}
