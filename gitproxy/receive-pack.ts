// The head of a push: the commands that receive-pack will carry out, read from the body as it arrives and before a byte
// of it is passed on (gitprotocol-pack, "Reference Update Request"). The reader must never see other commands than git
// does on the same bytes; where git is generous (a second capability list, junk after a shallow line, a delimiter in
// place of the flush, upper-case hex), this one refuses. Only the head is read; what follows is the pack's business.

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
  /** @returns the head once its flush has come. @throws PushHeadError */
  push(chunk: Buffer): PushHead | undefined;
}

/** Some 12,000 commands. */
export const MAX_HEAD_BYTES = 1024 * 1024;

const LINE = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (.+)$/s;
const SHALLOW = /^shallow ([0-9a-f]{40}|[0-9a-f]{64})$/;
const CAPABILITIES = /^[\x20-\x7e]*$/;

export function createPushHeadReader(): PushHeadReader {
  const pkts = createPktReader();
  const commands: RefCommand[] = [];
  const shallow: string[] = [];
  let capabilities: PushCapabilities = { report: false, band: 0 };
  let oidLength = 0;
  let read = 0;
  let head: PushHead | undefined;

  const onLine = (payload: Buffer): void => {
    const text = payload.toString('latin1');
    const nul = text.indexOf('\0');
    if (nul >= 0) {
      if (commands.length > 0) throw malformed('capabilities', 'capabilities follow the first command only');
      capabilities = readCapabilities(text.slice(nul + 1), (length) => {
        oidLength = length;
      });
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

  return {
    push(chunk) {
      if (head) return head;
      try {
        read += pkts.push(chunk, (pkt) => {
          if (pkt.kind === 'line') onLine(pkt.payload);
          else if (pkt.kind === 'flush') {
            checkObjectNames(commands, shallow, oidLength);
            head = { commands, capabilities, shallow };
            return 'stop';
          } else throw malformed('framing', 'the command list ends with a flush');
          return undefined;
        });
      } catch (error) {
        if (error instanceof PktError) throw malformed('framing', error.message);
        throw error;
      }
      if (!head && read > MAX_HEAD_BYTES)
        throw new PushHeadError(
          {
            code: 'too_many_refs',
            rule: 'max-head',
            message: `the command list is longer than ${MAX_HEAD_BYTES} bytes`,
          },
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

function readCapabilities(list: string, onObjectFormat: (oidLength: number) => void): PushCapabilities {
  const text = list.replace(/\n$/, '');
  if (!CAPABILITIES.test(text)) throw malformed('capabilities', 'the capability list has odd characters');
  const words = text.split(' ');
  const formats = words.filter((word) => word.startsWith('object-format='));
  if (formats.length > 1) throw malformed('object-format', 'object-format is there twice');
  if (formats[0] !== undefined) {
    const length = { 'object-format=sha1': 40, 'object-format=sha256': 64 }[formats[0]];
    if (length === undefined) throw malformed('object-format', 'object-format is sha1 or sha256');
    onObjectFormat(length);
  }
  return {
    report: words.includes('report-status') || words.includes('report-status-v2'),
    band: words.includes('side-band-64k') ? 65_515 : words.includes('side-band') ? 995 : 0,
  };
}

function malformed(rule: string, message: string): PushHeadError {
  return new PushHeadError({ code: 'malformed_request', rule, message });
}
