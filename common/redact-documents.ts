// The credentials inside a stored document: a kubeconfig, a GitHub App payload, a registry's auth file. Whole
// documents seldom reach a log; a line of one does, and then its token has to be known by itself.

import { parseAllDocuments } from 'yaml';
import { isDocument } from './redact-values.ts';

const LEAST = 4;
/** A key file's lines of base64; shorter ones are its last line. */
const PEM_LINE = /^[A-Za-z0-9+/=]{16,}$/;

/**
 * Names whose value is a credential wherever they stand: as an object's key, a YAML or JSON key, a header, a form
 * field. Compared in lower case without `-`, `_` and white space.
 */
const SENSITIVE =
  /^(?:(?:[a-z0-9]*)(?:password|passwd|passphrase|token|secret|apikey|accesskey|privatekey|secretkey|clientkeydata|credentials?|authorization|cookie)|auth|pwd|pass|sig|signature)$/;

export function isSensitiveName(name: string): boolean {
  return name.length <= 64 && SENSITIVE.test(name.toLowerCase().replace(/[-_\s.]/g, ''));
}

/**
 * Values of a multi-line or JSON document that are credentials by themselves: what stands under a telling name
 * (token, password, client-key-data decoded too), an exec plugin's environment, the lines of a private key. Empty for
 * anything that is not a document. A document that does not parse is searched line by line.
 */
export function credentialsIn(document: string): string[] {
  if (!isDocument(document)) return [];
  const found = new Set<string>();
  const take = (value: string): void => {
    if (value.length < LEAST || /^(?:null|none|true|false|undefined)$/i.test(value)) return;
    found.add(value);
    for (const line of keyLines(value)) found.add(line);
    if (!/^[A-Za-z0-9+/]{8,}={0,2}$/.test(value)) return;
    const decoded = Buffer.from(value, 'base64').toString('latin1');
    for (const line of keyLines(decoded)) found.add(line);
    // A registry's auth entry: base64 of user:password.
    const password = /^[!-9;-~]{1,100}:([ -~]{4,})$/.exec(decoded)?.[1];
    if (password) found.add(password);
  };
  for (const line of keyLines(document)) found.add(line);
  for (const root of parsed(document)) collect(root, take, 0);
  for (const [, name = '', value = ''] of document.matchAll(
    /([A-Za-z][\w.-]*)["']?[ \t]*[:=][ \t]*["']?([^\s"',]+)/g,
  )) {
    if (isSensitiveName(name)) take(value);
  }
  return [...found];
}

function parsed(document: string): unknown[] {
  try {
    const documents = parseAllDocuments(document, { logLevel: 'silent', strict: false });
    return Array.isArray(documents)
      ? documents.map((each) => each.toJS({ maxAliasCount: 100 }) as unknown)
      : [];
  } catch {
    return [];
  }
}

function collect(node: unknown, take: (value: string) => void, depth: number): void {
  if (depth > 32 || node === null || typeof node !== 'object') return;
  if (Array.isArray(node)) {
    for (const item of node) collect(item, take, depth + 1);
    return;
  }
  const entries = Object.entries(node);
  const { name } = node as { name?: unknown };
  const environment = typeof name === 'string' && isSensitiveName(name);
  for (const [key, value] of entries) {
    const scalar = typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
    if (scalar === undefined) collect(value, take, depth + 1);
    else if (isSensitiveName(key) || (environment && key === 'value')) take(scalar);
  }
}

function keyLines(text: string): string[] {
  if (!text.includes('PRIVATE KEY-----')) return [];
  return text
    .split(/\r?\n|\\n/)
    .map((line) => line.trim())
    .filter((line) => PEM_LINE.test(line));
}
