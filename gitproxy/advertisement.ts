// The one thing that the guard changes in what git says: capabilities that would lead the client around the guard, or
// into what the guard refuses, are taken out of the advertisement, so that the client does not come to want them.
//
//     v2 upload-pack     bundle-uri, and packfile-uris among the values of fetch (gitprotocol-v2): other hosts;
//                        sideband-all, in which a packet is a line: bands are framed anew here (band-scan.ts)
//     receive-pack       push-cert: a signed push's commands are in its certificate, which is not read yet; `git push
//                        --signed` then says so at once, and `--signed=if-asked` pushes unsigned
//
// v0 and v1 of upload-pack have no such capability. Only the capabilities are looked at: the refs after them, which can
// be many, pass as they are.

import type { BodyTransform } from '../relay/forward.ts';
import { createPktReader, FLUSH_PKT, PktError, pktLine } from './pkt-line.ts';
import type { Service } from './route.ts';

/** Of the values of `fetch`. */
const TAKEN_OUT: ReadonlySet<string> = new Set(['packfile-uris', 'sideband-all']);
const NOTHING = Buffer.alloc(0);

/** Throws PktError where the upstream's bytes are no advertisement. */
export function createAdvertisementFilter(service: Service): BodyTransform {
  const pkts = createPktReader();
  let announced = false; // past `# service=`
  let isV2 = false;
  let open = false; // the rest passes

  /** @returns what the line becomes; undefined: nothing */
  const onLine = (payload: Buffer): Buffer | undefined => {
    if (isV2) return withoutDetours(payload);
    const text = payload.toString('latin1');
    if (!announced && text === `# service=${service}\n`) return payload;
    announced = true;
    if (/^version 2\n?$/.test(text)) isV2 = true;
    else if (!/^version 1\n?$/.test(text)) {
      open = true;
      return service === 'git-receive-pack' ? withoutPushCert(text) : payload;
    }
    return payload;
  };

  return {
    push(chunk) {
      if (open) return chunk;
      const out: Buffer[] = [];
      const used = pkts.push(chunk, (pkt) => {
        if (pkt.kind === 'line') {
          const line = onLine(pkt.payload);
          if (line) out.push(pktLine(line));
        } else if (pkt.kind === 'flush') {
          out.push(FLUSH_PKT);
          if (announced) open = true;
          announced = true;
        } else throw new PktError('an advertisement has flushes only');
        return open ? 'stop' : undefined;
      });
      out.push(chunk.subarray(used));
      return out.length === 1 && out[0] ? out[0] : Buffer.concat(out);
    },
    end() {
      if (!open || !pkts.isBetween()) throw new PktError('the advertisement ended in the middle');
      return NOTHING;
    },
  };
}

function withoutDetours(payload: Buffer): Buffer | undefined {
  const text = payload.toString('latin1');
  const [, name, values] = /^([a-z-]+)(?:=([^\n]*))?\n?$/.exec(text) ?? [];
  if (name === 'bundle-uri') return undefined;
  if (name !== 'fetch' || !values) return payload;
  const kept = values.split(' ').filter((value) => !TAKEN_OUT.has(value.split('=')[0] ?? ''));
  return Buffer.from(`fetch${kept.length > 0 ? `=${kept.join(' ')}` : ''}\n`, 'latin1');
}

function withoutPushCert(text: string): Buffer {
  const nul = text.indexOf('\0');
  if (nul < 0) return Buffer.from(text, 'latin1');
  const kept = text
    .slice(nul + 1)
    .split(' ')
    .filter((word) => !/^push-cert(=|\n?$)/.test(word));
  const end = text.endsWith('\n') && !kept.join(' ').endsWith('\n') ? '\n' : '';
  return Buffer.from(`${text.slice(0, nul + 1)}${kept.join(' ')}${end}`, 'latin1');
}
