// The session's substitute as git sends it: Basic with the session id as user name and the token as password (RFC 7617).
// Read strictly: one spelling of the header decodes to one pair, or it is no credential at all.

export type Presented =
  | { readonly kind: 'none' }
  /** Something was sent, and it is nothing that could be checked. */
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'basic'; readonly id: string; readonly token: string };

const MAX_LENGTH = 8_192;

export function readAuthorization(header: string | undefined): Presented {
  if (header === undefined || header === '') return { kind: 'none' };
  const encoded = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(header)?.[1];
  if (encoded === undefined || encoded.length > MAX_LENGTH) return { kind: 'unreadable' };
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.toString('base64').replace(/=+$/, '') !== encoded.replace(/=+$/, ''))
    return { kind: 'unreadable' };
  const text = bytes.toString('latin1');
  const colon = text.indexOf(':');
  if (colon < 0 || !/^[\x21-\x7e]*$/.test(text)) return { kind: 'unreadable' };
  return { kind: 'basic', id: text.slice(0, colon), token: text.slice(colon + 1) };
}
