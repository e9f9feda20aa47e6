import { describe, expect, test } from 'vitest';
import { REASONS, type Reason } from '../../common/reason.ts';
import { parseRequest } from '../../kubeguard/request-info.ts';
import { statusObject } from '../../kubeguard/status.ts';

function info(target: string) {
  const parsed = parseRequest('GET', target);
  if (!parsed.ok) throw new Error(parsed.refusal.message);
  return parsed.info;
}

describe('a refusal is a full Status', () => {
  test('that names what was asked for, the rule, the code and the request', () => {
    expect(
      statusObject(
        { code: 'verb_not_allowed', message: 'the verb delete is outside' },
        'req_1',
        info('/apis/apps/v1/namespaces/a/deployments/d'),
      ),
    ).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      code: 403,
      reason: 'Forbidden',
      message:
        'deployments.apps "d" is forbidden: the verb delete is outside (verb_not_allowed, request req_1)',
      details: {
        name: 'd',
        group: 'apps',
        kind: 'deployments',
        causes: [{ reason: 'verb_not_allowed', message: 'the verb delete is outside' }],
      },
    });
  });
  test('also for a path outside the API, and where nothing is known', () => {
    expect(statusObject({ code: 'non_resource_path', message: 'm' }, 'r', info('/metrics')).message).toMatch(
      /^\/metrics is forbidden: m/,
    );
    expect(statusObject({ code: 'malformed_request', message: 'm' }, 'r')).toMatchObject({
      code: 400,
      reason: 'BadRequest',
      message: 'm (malformed_request, request r)',
    });
  });
  test.each([
    ['unauthenticated', 'Unauthorized'],
    ['method_not_allowed', 'MethodNotAllowed'],
    ['body_too_large', 'RequestEntityTooLarge'],
    ['rate_limited', 'TooManyRequests'],
    ['upstream_refused', 'InternalError'],
    ['guard_unavailable', 'ServiceUnavailable'],
    ['not_found', 'NotFound'],
  ] as [Reason, string][])('%s has the reason %s', (code, reason) =>
    expect(statusObject({ code, message: 'm' }, 'r')).toMatchObject({ reason, code: REASONS[code].status }),
  );
  test('nothing in it moves a cursor', () =>
    expect(statusObject({ code: 'namespace_not_allowed', message: 'a\u001b[2Jb\u202ec' }, 'r').message).toBe(
      'the request is forbidden: a?[2Jb?c (namespace_not_allowed, request r)',
    ));
});
