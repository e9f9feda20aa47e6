import { expect, test } from 'vitest';
import { createRedactor } from '../../common/redact.ts';

const redactor = createRedactor();
const b64 = (text: string) => Buffer.from(text).toString('base64');
const long = 'a1B2c3D4e5F6g7H8i9J0'.repeat(3);
const jwt = `${Buffer.from('{"alg":"RS256","typ":"JWT"}').toString('base64url')}.${Buffer.from('{"sub":"x","exp":1}').toString('base64url')}.${long}`;
const pem = `-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n${long}\n-----END PRIVATE KEY-----`;

test.each([
  ['ghp_', `ghp_${long.slice(0, 36)}`],
  ['gho_', `gho_${long.slice(0, 36)}`],
  ['ghu_', `ghu_${long.slice(0, 36)}`],
  ['ghs_', `ghs_${long.slice(0, 36)}`],
  ['ghr_', `ghr_${long}`],
  ['github_pat_', `github_pat_${long.slice(0, 22)}_${long.slice(0, 59)}`],
  [
    'a GitHub token of 520 characters with dots',
    `ghs_${'a1B2c3_4-'.repeat(19)}.${'e5F6g7H8'.repeat(20)}.${'i9J0'.repeat(46)}`,
  ],
  ['a GitHub token cut short', `ghp_${long.slice(0, 9)}`],
  ['a JWT', jwt],
  ['a JWT cut in its payload', jwt.slice(0, 60)],
  ['a PEM key', pem],
  ['a PEM key on one line', pem.replaceAll('\n', '\\n')],
  ['a PEM key without its end', pem.slice(0, 60)],
  ['a PEM key in base64', b64(pem)],
  ['an AWS key id', 'AKIAIOSFODNN7EXAMPLE'],
  ['a GitLab token', `glpat-${long.slice(0, 20)}`],
  ['an npm token', `npm_${long.slice(0, 36)}`],
])('by its look: %s', (_name, secret) => {
  for (const text of [
    secret,
    `at ${secret} end`,
    `"${secret}"`,
    `x=${secret}`,
    `a/${secret}/b`,
    `one\n${secret}\ntwo`,
  ]) {
    const out = redactor.text(text);
    expect(out).toContain('[redacted]');
    for (let at = 4; at + 12 <= secret.length; at++) expect(out).not.toContain(secret.slice(at, at + 12));
  }
});

test.each([
  ['Bearer s3cr3t', 'Bearer [redacted]'],
  ['bearer abc, then', 'bearer [redacted], then'],
  ['Basic dXNlcjpwYXNz', 'Basic [redacted]'],
  ['Authorization: Digest a b c\r\nHost: example.com', 'Authorization: [redacted]\r\nHost: example.com'],
  ['Proxy-Authorization:Basic abc', 'Proxy-Authorization:[redacted]'],
  ['Cookie: a=1; b=2\nAccept: */*', 'Cookie: [redacted]\nAccept: */*'],
  ["set-cookie: [ 'a=1; Path=/', 'b=2' ], x: 1", 'set-cookie: [redacted]], x: 1'],
  ['{"authorization":"Custom a,b","host":"h"}', '{"authorization":"[redacted]","host":"h"}'],
  [
    '{\\"authorization\\":\\"Custom a,b\\",\\"host\\":\\"h\\"}',
    '{\\"authorization\\":\\"[redacted]\\",\\"host\\":\\"h\\"}',
  ],
  ['X-Api-Key: abc def', 'X-Api-Key: [redacted]'],
  ['https://user:p%40ss@example.com/acme', 'https://[redacted]@example.com/acme'],
  ['https://x-access-token:abc123@github.com/acme/tool.git', 'https://[redacted]@github.com/acme/tool.git'],
  ['ssh://git:p@ss@host/x', 'ssh://[redacted]@host/x'],
  ['?access_token=abc&x=1', '?access_token=[redacted]&x=1'],
  ['password=hunter2', 'password=[redacted]'],
  ["GITHUB_TOKEN='a b'", "GITHUB_TOKEN='[redacted]'"],
  ['aws_secret_access_key = wJalr/bPxRfi', 'aws_secret_access_key = [redacted]'],
  ['X-Amz-Signature=0a1b2c&X-Amz-Date=1', 'X-Amz-Signature=[redacted]&X-Amz-Date=1'],
  ['    token: abcdef', '    token: [redacted]'],
  ['    token: "a b"', '    token: "[redacted]"'],
  ['  password: two words here', '  password: [redacted]'],
  ['- client-key-data: LS0tLS1CRUdJTiBFQyBQUklWQVRF', '- client-key-data: [redacted]'],
  ['login failed, password: hunter2 was sent', 'login failed, password: [redacted] was sent'],
  ['Map(1) { "token" => "abc" }', 'Map(1) { "token" => "[redacted]" }'],
  ['curl --token abc https://x', 'curl --token [redacted] https://x'],
  ['"clientSecret": "abc"', '"clientSecret": "[redacted]"'],
])('the secret goes and its name stays: %s', (text, expected) => {
  expect(redactor.text(text)).toBe(expected);
  expect(redactor.text(expected)).toBe(expected);
});

test.each([
  'secret: no such secret',
  'The token: it was not given',
  'secrets "db" is forbidden: User "x" cannot get resource "secrets"',
  'Basic authentication is off, Bearer tokens only',
  'WWW-Authenticate: Basic realm="Postern"',
  'https://example.com/a@b',
  'git@github.com:acme/tool.git',
  'acme/laughs_at_everything refs/heads/token-rotation',
  'serviceaccounts/token create, pods/log get',
  '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
])('ordinary words are left alone: %s', (text) => {
  expect(redactor.text(text)).toBe(text);
});

test('no text of a stranger takes more than linear time', () => {
  const size = 200_000;
  for (const unit of [
    '-',
    'a-',
    'x-',
    '://',
    '@',
    'eyJ',
    'ghp_',
    '\\',
    '"',
    'PRIVATE KEY',
    '-----BEGIN ',
    '-----END PRIVATE KEY',
    'token:',
    'token: ',
    'bearer ',
    'A',
    ' ',
    'pass=\\"',
    'LS0tLS1',
  ])
    redactor.text(unit.repeat(size / unit.length));
});
