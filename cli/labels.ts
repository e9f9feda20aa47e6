import { PosternError } from '../common/errors.ts';

/** `--label k=v`, repeated. @throws PosternError `invalid_input` */
export function readLabels(given: readonly string[]): { [name: string]: string } {
  const labels: { [name: string]: string } = {};
  for (const text of given) {
    const [, name, value] = /^([A-Za-z][\w./-]*)=(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined)
      throw new PosternError('invalid_input', '--label: write it as name=value.', { key: '--label' });
    if (Object.hasOwn(labels, name))
      throw new PosternError('invalid_input', `--label: ${name} is given twice.`, { key: '--label' });
    labels[name] = value;
  }
  return labels;
}
