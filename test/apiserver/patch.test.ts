// Patches, field sets and selectors as functions: tables, and properties that no example would show.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { modelOf } from './kinds/models.ts';
import { fieldsOf, fromFieldsV1, overlay, toFieldsV1 } from './objects/field-sets.ts';
import { jsonPatch, mergePatch, strategicMerge } from './objects/patch.ts';
import { parseFieldSelector, parseLabelSelector } from './objects/selectors.ts';
import { equal, type Json, type JsonObject } from './objects/values.ts';

const pod = modelOf('', 'v1', 'Pod');
if (!pod) throw new Error('no model of a Pod');
const model = pod;

const key = fc.constantFrom('a', 'b', 'c', 'd');
const tree = fc.letrec<{ value: Json; object: JsonObject }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.integer(),
    fc.string(),
    fc.boolean(),
    fc.array(fc.integer()),
    tie('object'),
  ),
  object: fc.dictionary(key, tie('value'), { maxKeys: 4 }),
}));

describe('JSON merge patch', () => {
  test('laying an object over itself changes nothing, and nulls take away', () => {
    fc.assert(
      fc.property(tree.object, (object) => {
        expect(equal(mergePatch(object, object), object)).toBe(true);
        const nulls = Object.fromEntries(Object.keys(object).map((name) => [name, null]));
        expect(mergePatch(object, nulls)).toEqual({});
      }),
    );
  });
});

describe('JSON patch', () => {
  test.each([
    ['add', [{ op: 'add', path: '/b', value: 1 }], { a: [1, 2], b: 1 }],
    ['add in a list', [{ op: 'add', path: '/a/1', value: 9 }], { a: [1, 9, 2] }],
    ['add at its end', [{ op: 'add', path: '/a/-', value: 9 }], { a: [1, 2, 9] }],
    ['replace', [{ op: 'replace', path: '/a/0', value: 9 }], { a: [9, 2] }],
    ['remove', [{ op: 'remove', path: '/a' }], {}],
    ['move', [{ op: 'move', from: '/a/0', path: '/b' }], { a: [2], b: 1 }],
    ['copy', [{ op: 'copy', from: '/a/0', path: '/a/-' }], { a: [1, 2, 1] }],
    ['a path with / and ~', [{ op: 'add', path: '/x~1y~0z', value: 1 }], { a: [1, 2], 'x/y~z': 1 }],
  ])('%s', (_name, operations, wanted) => {
    expect(jsonPatch({ a: [1, 2] }, operations as Json)).toEqual(wanted);
  });
  test.each([
    ['no list', {} as Json, 400],
    ['an unknown operation', [{ op: 'x', path: '/a' }], 400],
    ['nothing there to remove', [{ op: 'remove', path: '/none' }], 422],
    ['nothing there to replace', [{ op: 'replace', path: '/none', value: 1 }], 422],
    ['a place beyond the list', [{ op: 'add', path: '/a/9', value: 1 }], 422],
    ['a test that fails', [{ op: 'test', path: '/a/0', value: 2 }], 422],
  ])('%s', (_name, operations, code) => {
    expect(() => jsonPatch({ a: [1, 2] }, operations as Json)).toThrow(expect.objectContaining({ code }));
  });
});

describe('strategic merge', () => {
  const live: JsonObject = {
    metadata: { finalizers: ['x', 'y'] },
    spec: {
      containers: [
        { name: 'one', image: 'a', env: [{ name: 'A', value: '1' }] },
        { name: 'two', image: 'b', args: ['x', 'y'] },
      ],
      tolerations: [{ key: 'old' }],
    },
  };
  const merged = (patch: JsonObject): JsonObject => strategicMerge(live, patch, model);
  const containers = (patch: Json[]): Json =>
    (merged({ spec: { containers: patch } }).spec as JsonObject).containers ?? null;

  test('items of a keyed list merge with the one of their name', () => {
    expect(containers([{ name: 'two', image: 'c' }])).toEqual([
      { name: 'one', image: 'a', env: [{ name: 'A', value: '1' }] },
      { name: 'two', image: 'c', args: ['x', 'y'] },
    ]);
  });
  test('an item can be deleted, a list replaced', () => {
    expect(containers([{ name: 'one', $patch: 'delete' }])).toEqual([
      { name: 'two', image: 'b', args: ['x', 'y'] },
    ]);
    expect(containers([{ $patch: 'replace' }, { name: 'new' }])).toEqual([{ name: 'new' }]);
  });
  test('other lists are replaced whole, sets are united', () => {
    expect(merged({ spec: { tolerations: [{ key: 'new' }] } }).spec).toMatchObject({
      tolerations: [{ key: 'new' }],
    });
    expect(merged({ metadata: { finalizers: ['z'] } }).metadata).toEqual({ finalizers: ['x', 'y', 'z'] });
    expect(merged({ metadata: { '$deleteFromPrimitiveList/finalizers': ['x'] } }).metadata).toEqual({
      finalizers: ['y'],
    });
  });
  test('an order is kept', () => {
    const spec = {
      '$setElementOrder/containers': [{ name: 'two' }, { name: 'one' }],
      containers: [{ name: 'two' }],
    };
    const names = ((merged({ spec }).spec as JsonObject).containers as JsonObject[]).map((one) => one.name);
    expect(names).toEqual(['two', 'one']);
  });
});

describe('field sets', () => {
  const label = fc.dictionary(key, fc.constantFrom('x', 'y'), { maxKeys: 3 });
  const container = fc.record(
    { name: fc.constantFrom('one', 'two', 'three'), image: fc.constantFrom('a', 'b'), tty: fc.boolean() },
    { requiredKeys: ['name'] },
  );
  const some = fc.record(
    {
      metadata: fc.record({ labels: label }, { requiredKeys: [] }),
      spec: fc.record(
        {
          // An empty list of keyed items has no fields, and so is nothing that could be found again.
          containers: fc.uniqueArray(container, { selector: (one) => one.name, minLength: 1, maxLength: 3 }),
          nodeName: fc.constantFrom('n1', 'n2'),
        },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: [] },
  ) as fc.Arbitrary<JsonObject>;

  test('survive their notation', () => {
    fc.assert(
      fc.property(some, (object) => {
        const set = fieldsOf(object, model);
        expect(fromFieldsV1(toFieldsV1(set))).toEqual(set);
      }),
    );
  });

  test('what is laid over is there afterwards, and laying it twice is laying it once', () => {
    fc.assert(
      fc.property(some, some, (live, applied) => {
        const schema = { type: 'model' as const, model };
        const once = overlay(live, applied, schema);
        expect(equal(overlay(once, applied, schema), once)).toBe(true);
        const owned = fieldsOf(once as JsonObject, model);
        // An empty value is a leaf of its own only while nothing is in it.
        for (const path of fieldsOf(applied, model))
          expect(
            [...owned].some((other) => other === path || other.startsWith(path)),
            path,
          ).toBe(true);
      }),
    );
  });
});

describe('selectors', () => {
  test.each([
    ['a=b', [{ key: 'a', operator: 'in', values: ['b'] }]],
    [
      'a==b,c!=d',
      [
        { key: 'a', operator: 'in', values: ['b'] },
        { key: 'c', operator: 'notin', values: ['d'] },
      ],
    ],
    [
      'x.io/a in (b, c),!d,e',
      [
        { key: 'x.io/a', operator: 'in', values: ['b', 'c'] },
        { key: 'd', operator: 'absent' },
        { key: 'e', operator: 'exists' },
      ],
    ],
    ['a notin (b)', [{ key: 'a', operator: 'notin', values: ['b'] }]],
    ['', []],
    ['a b', undefined],
    ['=b', undefined],
  ])('label selector %s', (raw, wanted) => {
    expect(parseLabelSelector(raw)).toEqual(wanted);
  });
  test.each([
    ['metadata.name=x', [{ field: 'metadata.name', equals: true, value: 'x' }]],
    [
      'a==b,c!=d',
      [
        { field: 'a', equals: true, value: 'b' },
        { field: 'c', equals: false, value: 'd' },
      ],
    ],
    ['a=b\\,c', [{ field: 'a', equals: true, value: 'b,c' }]],
    ['metadata.name=', [{ field: 'metadata.name', equals: true, value: '' }]],
    ['metadata.name', undefined],
  ])('field selector %s', (raw, wanted) => {
    expect(parseFieldSelector(raw)).toEqual(wanted);
  });
});
