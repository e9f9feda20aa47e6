// The head of a push: the commands that receive-pack will carry out, read from the body as it arrives and before a byte
// of it is passed on (gitprotocol-pack, "Reference Update Request"). The reader must never see other commands than git
// does on the same bytes; where git is generous (a second capability list, junk after a shallow line, a delimiter in
// place of the flush, upper-case hex), this one refuses. Push options, where they are negotiated, stand in a section of
// their own behind the commands and belong to the head: forges act on them. What follows is the pack's business.

import type { Refusal } from '../common/reason.ts';
import { createPktReader, PktError } from './pkt-line.ts';

export type RefOperation = 'create' | 'update' | 'delete';

export interface RefCommand {
  /** Lower-case hex, 40 or 64 digits. */
  readonly old: string;
  readonly new: string;
  /** One character a byte (latin1): goes back to the client byte for byte. */
  readonly ref: string;
}

export interface PushHead {
  readonly commands: readonly RefCommand[];
  readonly capabilities: PushCapabilities;
  readonly shallow: readonly string[];
  /** One character a byte (latin1); absent where the client did not negotiate any. */
  readonly options?: readonly string[];
}

/** Of the client's, those that shape the answer. */
export interface PushCapabilities {
  readonly report: boolean;
  /** Most bytes of data in a band packet; 0: no bands. */
  readonly band: number;
}

/** Thrown by the reader. `capabilities` are those seen before it gave up. */
export class PushHeadError extends Error {
  readonly refusal: Refusal;
  readonly capabilities: PushCapabilities | undefined;
  constructor(refusal: Refusal, capabilities?: PushCapabilities) {
    super(refusal.message);
    this.name = 'PushHeadError';
    this.refusal = refusal;
    this.capabilities = capabilities;
  }
}

export interface PushHeadReader {
  /** @returns the head once its last flush has come. @throws PushHeadError */
  push(chunk: Buffer): PushHead | undefined;
}

/** Some 4,000 commands, and no more than what a record can hold of those that are admitted. */
export const MAX_HEAD_BYTES = 384 * 1024;
const MAX_OPTION_BYTES = 64 * 1024;

const LINE = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (.+)$/s;
const SHALLOW = /^shallow ([0-9a-f]{40}|[0-9a-f]{64})$/;
const CAPABILITIES = /^[\x20-\x7e]*$/;
/** git hands an option on up to its first NUL, and a forge by lines. */
const OPTION = /^[\x20-\x7e\x80-\xff]*$/;

export function createPushHeadReader(): PushHeadReader {
  const pkts = createPktReader();
  const commands: RefCommand[] = [];
  const shallow: string[] = [];
  let capabilities: PushCapabilities = { report: false, band: 0 };
  let oidLength = 0;
  let options: string[] | undefined; // wanted
  let commandBytes = -1; // known once their flush has come
  let read = 0;
  let head: PushHead | undefined;

  const onLine = (payload: Buffer): void => {
    const text = payload.toString('latin1');
    const nul = text.indexOf('\0');
    if (nul >= 0) {
      if (commands.length > 0) throw malformed('capabilities', 'capabilities follow the first command only');
      const said = readCapabilities(text.slice(nul + 1));
      ({ capabilities, oidLength } = said);
      if (said.pushOptions) options = [];
    }
    const line = nul >= 0 ? text.slice(0, nul) : text.replace(/\n$/, '');
    if (line === 'push-cert')
      throw new PushHeadError(
        {
          code: 'push_cert_not_supported',
          rule: 'push-cert',
          message: 'signed pushes are not supported: push without --signed',
        },
        capabilities,
      );
    const shallowId = nul < 0 && commands.length === 0 ? SHALLOW.exec(line)?.[1] : undefined;
    if (shallowId !== undefined) {
      shallow.push(shallowId);
      return;
    }
    const [, old = '', next = '', ref = ''] = LINE.exec(line) ?? [];
    if (ref === '' || old.length !== next.length)
      throw malformed('command', 'a line of the command list is not "old new ref"');
    commands.push({ old, new: next, ref });
  };

  const onOption = (payload: Buffer, into: string[]): void => {
    const option = payload.toString('latin1').replace(/\n$/, '');
    if (!OPTION.test(option)) throw malformed('push-options', 'a push option has odd characters');
    into.push(option);
  };

  return {
    push(chunk) {
      if (head) return head;
      try {
        const before = read;
        read += pkts.push(chunk, (pkt, used) => {
          if (pkt.kind === 'line') {
            if (commandBytes < 0) onLine(pkt.payload);
            else onOption(pkt.payload, options ?? []);
            return undefined;
          }
          if (pkt.kind !== 'flush') throw malformed('framing', 'the command list ends with a flush');
          if (commandBytes < 0) {
            checkObjectNames(commands, shallow, oidLength);
            commandBytes = before + used;
            // git reads no options behind an empty list.
            if (options && commands.length > 0) return undefined;
          }
          head = { commands, capabilities, shallow, ...(options ? { options } : {}) };
          return 'stop';
        });
      } catch (error) {
        if (error instanceof PktError) throw malformed('framing', error.message);
        throw error;
      }
      if ((commandBytes < 0 ? read : commandBytes) > MAX_HEAD_BYTES)
        throw tooLong(
          'too_many_refs',
          'max-head',
          `the command list is longer than ${MAX_HEAD_BYTES} bytes`,
          capabilities,
        );
      if (commandBytes >= 0 && read - commandBytes > MAX_OPTION_BYTES)
        throw tooLong(
          'push_not_allowed',
          'git.push.options',
          `the push options are longer than ${MAX_OPTION_BYTES} bytes`,
          capabilities,
        );
      return head;
    },
  };
}

export function operationOf(command: RefCommand): RefOperation | 'nothing' {
  const [fromNothing, toNothing] = [isZero(command.old), isZero(command.new)];
  if (fromNothing && toNothing) return 'nothing';
  return fromNothing ? 'create' : toNothing ? 'delete' : 'update';
}

function isZero(oid: string): boolean {
  return /^0+$/.test(oid);
}

/** Without `object-format` it is SHA-1, as git takes it; git ends the connection where the repository has the other. */
function checkObjectNames(
  commands: readonly RefCommand[],
  shallow: readonly string[],
  declared: number,
): void {
  const length = declared || 40;
  if (commands.some(({ old }) => old.length !== length) || shallow.some((oid) => oid.length !== length))
    throw malformed('object-format', 'object names are not of the length that object-format says');
}

/** A feature counts with a value too, as git reads it. */
function readCapabilities(list: string): {
  capabilities: PushCapabilities;
  oidLength: number;
  pushOptions: boolean;
} {
  const text = list.replace(/\n$/, '');
  if (!CAPABILITIES.test(text)) throw malformed('capabilities', 'the capability list has odd characters');
  const words = text.split(' ');
  const has = (name: string): boolean => words.some((word) => word === name || word.startsWith(`${name}=`));
  const formats = words.filter((word) => word.startsWith('object-format='));
  if (formats.length > 1) throw malformed('object-format', 'object-format is there twice');
  let oidLength = 0;
  if (formats[0] !== undefined) {
    const length = { 'object-format=sha1': 40, 'object-format=sha256': 64 }[formats[0]];
    if (length === undefined) throw malformed('object-format', 'object-format is sha1 or sha256');
    oidLength = length;
  }
  const capabilities = {
    report: has('report-status') || has('report-status-v2'),
    band: has('side-band-64k') ? 65_515 : has('side-band') ? 995 : 0,
  };
  return { capabilities, oidLength, pushOptions: has('push-options') };
}

function tooLong(
  code: 'too_many_refs' | 'push_not_allowed',
  rule: string,
  message: string,
  capabilities: PushCapabilities,
): PushHeadError {
  return new PushHeadError({ code, rule, message }, capabilities);
}

function malformed(rule: string, message: string): PushHeadError {
  return new PushHeadError({ code: 'malformed_request', rule, message });
}
