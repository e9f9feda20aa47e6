// The broker: who may use which credential, for what, until when; and what of it a workload gets. Three nouns carry it.
// A secret is what the credential is (kind, sealed payload). A grant says who may use it, under constraints, until a time.
// A lease is what one executor may use for one project now, short, each credential cut down to its grant; what a guard
// can hold stays with the guard, and the lease has a session in its place.
//
// It refuses to hand out more than a grant says, to anybody, for any reason: what can't be read, decided, narrowed,
// recorded or guarded is a denial. It imports no guard and knows no wire.
//
// Start: secrets/, grants/, leases/, requests/ have a file for each thing that can be done; kinds/ one for each kind of
// secret; constraints/ and subject.ts are the pure rules; github-app/ is what installation tokens need.

import { checkHost, checkRepo } from './access.ts';
import type { Caller } from './caller.ts';
import { createContext } from './context.ts';
import type { BrokerDeps } from './deps.ts';
import { createGrant, type GrantInput } from './grants/create.ts';
import type { Grant } from './grants/grant.ts';
import { findGrant, type GrantFilter, listGrants } from './grants/list.ts';
import { revokeGrant } from './grants/revoke.ts';
import { type ImportResult, importFlat } from './import.ts';
import { type AcknowledgeInput, acknowledgeRevocation } from './leases/acknowledge.ts';
import { createLease, type LeaseInput } from './leases/create.ts';
import { findLease, type LeaseFilter, listLeases } from './leases/find.ts';
import type { LeaseRecord } from './leases/record.ts';
import { releaseLease } from './leases/release.ts';
import { type RenewInput, renewLease } from './leases/renew.ts';
import { countLive, type KindCounts, type Swept, sweepLeases } from './leases/sweep.ts';
import type { Lease } from './material.ts';
import type { RequesterInput } from './requester.ts';
import {
  type ApproveInput,
  approveRequest,
  type DecideInput,
  denyRequest,
  withdrawRequest,
} from './requests/decide.ts';
import { expireRequests } from './requests/expire.ts';
import {
  findRequest,
  listRequests,
  openRequest,
  type RequestFilter,
  type RequestInput,
} from './requests/open.ts';
import type { AccessRequest } from './requests/request.ts';
import { type RequestUse, requestUses } from './requests/uses.ts';
import { deleteSecret } from './secrets/delete.ts';
import { findSecret, listSecrets } from './secrets/find.ts';
import { type MintInput, mintSecret } from './secrets/mint.ts';
import { type ReplaceInput, replaceSecret } from './secrets/replace.ts';
import type { Secret } from './secrets/secret.ts';

/** Every operation. Each takes whoever does it; what it throws is with the function that it is here. */
export interface Broker {
  readonly secrets: {
    mint(input: MintInput, caller: Caller): Promise<Secret>;
    replace(input: ReplaceInput, caller: Caller): Promise<Secret>;
    list(caller: Caller): Promise<Secret[]>;
    /** By id or name. */
    show(ref: string, caller: Caller): Promise<Secret>;
    delete(ref: string, caller: Caller): Promise<Secret>;
    importFlat(file: Buffer, caller: Caller): Promise<ImportResult>;
  };
  readonly grants: {
    create(input: GrantInput, caller: Caller): Promise<Grant>;
    list(filter: GrantFilter, caller: Caller): Promise<Grant[]>;
    show(id: string, caller: Caller): Promise<Grant>;
    /** Answers when nothing of it can be used in this process any more. */
    revoke(id: string, caller: Caller): Promise<Grant>;
  };
  readonly leases: {
    create(input: LeaseInput, caller: Caller): Promise<Lease>;
    renew(input: RenewInput, caller: Caller): Promise<Lease>;
    /** @returns whether there was one */
    release(id: string, caller: Caller): Promise<boolean>;
    show(id: string): Promise<LeaseRecord>;
    list(filter?: LeaseFilter): Promise<LeaseRecord[]>;
    acknowledge(input: AcknowledgeInput, caller: Caller): Promise<void>;
    /** For a gauge: leases that would be honoured now, by kind. */
    live(): Promise<KindCounts>;
  };
  readonly requests: {
    open(input: RequestInput, caller: Caller): Promise<AccessRequest>;
    list(filter: RequestFilter, caller: Caller): Promise<AccessRequest[]>;
    show(id: string): Promise<AccessRequest>;
    approve(input: ApproveInput, caller: Caller): Promise<{ request: AccessRequest; grant: Grant }>;
    deny(input: DecideInput, caller: Caller): Promise<AccessRequest>;
    withdraw(id: string, caller: Caller): Promise<AccessRequest>;
    uses(id: string): Promise<RequestUse[]>;
  };
  readonly access: {
    checkRepo(requester: RequesterInput, repo: string, caller: Caller, permission?: string): Promise<void>;
    checkHost(requester: RequesterInput, host: string, caller: Caller): Promise<void>;
  };
  /** Ends leases and requests whose time is over, and tokens that nobody holds. To be called every few seconds. */
  sweep(): Promise<Swept & { readonly requests: readonly AccessRequest[] }>;
}

export function createBroker(deps: BrokerDeps): Broker {
  const context = createContext(deps);
  return {
    secrets: {
      mint: (input, caller) => mintSecret(context, input, caller),
      replace: (input, caller) => replaceSecret(context, input, caller),
      list: (caller) => listSecrets(context, caller),
      show: async (ref, caller) => (await findSecret(context, ref, caller)).secret,
      delete: (ref, caller) => deleteSecret(context, ref, caller),
      importFlat: (file, caller) => importFlat(context, file, caller),
    },
    grants: {
      create: (input, caller) => createGrant(context, input, caller),
      list: (filter, caller) => listGrants(context, filter, caller),
      show: async (id, caller) => (await findGrant(context, id, caller)).grant,
      revoke: (id, caller) => revokeGrant(context, id, caller),
    },
    leases: {
      create: (input, caller) => createLease(context, input, caller),
      renew: (input, caller) => renewLease(context, input, caller),
      release: (id, caller) => releaseLease(context, id, caller),
      show: (id) => findLease(context, id),
      list: (filter) => listLeases(context, filter),
      acknowledge: (input, caller) => acknowledgeRevocation(context, input, caller),
      live: () => countLive(context),
    },
    requests: {
      open: (input, caller) => openRequest(context, input, caller),
      list: (filter, caller) => listRequests(context, filter, caller),
      show: async (id) => (await findRequest(context, id)).request,
      approve: (input, caller) => approveRequest(context, input, caller),
      deny: (input, caller) => denyRequest(context, input, caller),
      withdraw: (id, caller) => withdrawRequest(context, id, caller),
      uses: (id) => requestUses(context, id),
    },
    access: {
      checkRepo: (requester, repo, caller, permission) =>
        checkRepo(context, requester, repo, caller, permission),
      checkHost: (requester, host, caller) => checkHost(context, requester, host, caller),
    },
    async sweep() {
      const swept = await sweepLeases(context);
      return { ...swept, requests: await expireRequests(context) };
    },
  };
}
