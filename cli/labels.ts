import { safeRef } from '../broker/safe-ref.ts';
import { PosternError } from '../common/errors.ts';

/** `--label k=v`, repeated; or another flag of that form. @throws PosternError `invalid_input` */
export function readLabels(given: readonly string[], flag = '--label'): { [name: string]: string } {
  const labels: { [name: string]: string } = {};
  for (const text of given) {
    const [, name, value] = /^([A-Za-z][\w./-]*)=(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined)
      throw new PosternError('invalid_input', `${flag}: ${safeRef(text)} is not name=value.`, { key: flag });
    if (Object.hasOwn(labels, name))
      throw new PosternError('invalid_input', `${flag}: ${name} is given twice.`, { key: flag });
    labels[name] = value;
  }
  return labels;
}
