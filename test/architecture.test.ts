import { readdirSync, readFileSync } from 'node:fs';
import { join, normalize, sep } from 'node:path';
import { describe, expect, test } from 'vitest';

// The seams of AGENTS.md, read off the imports. Type-only imports are erased and carry no behaviour: common/ may name
// the types of other rooms; everyone else keeps to the list with these too.
const MAY_IMPORT: Record<string, readonly string[]> = {
  common: [],
  store: ['common', 'keyring'],
  keyring: ['common', 'store'],
  audit: ['common', 'store', 'keyring'],
  certs: ['common', 'store', 'keyring', 'audit'],
  sessions: ['common', 'store', 'keyring', 'audit'],
  relay: ['common', 'sessions'],
  gitproxy: ['common', 'sessions', 'audit', 'relay'],
  kubeguard: ['common', 'sessions', 'audit', 'relay'],
  broker: ['common', 'store', 'keyring', 'audit', 'sessions'],
  delivery: ['common', 'sessions', 'broker'],
  ops: ['common', 'sessions', 'audit'],
  control: [
    'common',
    'store',
    'keyring',
    'audit',
    'certs',
    'sessions',
    'gitproxy',
    'kubeguard',
    'broker',
    'delivery',
  ],
};

const root = join(import.meta.dirname, '..');

function files(room: string): string[] {
  return readdirSync(join(root, room), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(room, name));
}

function imports(file: string): { target: string; typeOnly: boolean }[] {
  const text = readFileSync(join(root, file), 'utf8');
  const found = text.matchAll(
    /^(?:import|export)\s+(type\s)?[^;]*?from\s+'(\.[^']+)'|import\(\s*'(\.[^']+)'/gms,
  );
  return [...found].map(([, type, from, dynamic]) => ({
    target: normalize(join(file, '..', from ?? dynamic ?? '')),
    typeOnly: type !== undefined,
  }));
}

describe('the rooms keep their seams', () => {
  for (const [room, allowed] of Object.entries(MAY_IMPORT)) {
    test(`${room}/ imports only ${allowed.join(', ') || 'itself'}`, () => {
      const wrong = files(room).flatMap((file) =>
        imports(file)
          .filter(({ target, typeOnly }) => {
            const other = target.split(sep)[0] ?? '';
            return other !== room && !allowed.includes(other) && !(room === 'common' && typeOnly);
          })
          .map(({ target }) => `${file} imports ${target}`),
      );
      expect(wrong).toEqual([]);
    });
  }

  test('the reader of imports sees them', () => {
    expect(imports('store/store.ts').map(({ target }) => target)).toContain('common/json.ts');
  });

  test("http-proxy's web() is never called, and no upstream is reached by fetch", () => {
    const wrong = Object.keys(MAY_IMPORT)
      .filter((room) => ['relay', 'gitproxy', 'kubeguard'].includes(room))
      .flatMap(files)
      .filter((file) => /\.web\(|\bfetch\(|\brequest\(\s*url/.test(readFileSync(join(root, file), 'utf8')));
    expect(wrong).toEqual([]);
  });
});
