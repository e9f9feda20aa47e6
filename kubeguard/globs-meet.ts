// Whether some name matches two globs at once: `team-*` and `*-a` meet, `team-*` and `prod-*` do not. For the one place
// where a session whose rules allow nothing is to be refused when it is issued; the decisions match each glob itself.

interface Unit {
  readonly star: boolean;
  /** The characters that fit. */
  readonly chars: string;
}

/** Every character that a namespace can have; `-` first, so that it is no range. */
const ALL = '-abcdefghijklmnopqrstuvwxyz0123456789';

export function globsMeet(a: string, b: string): boolean {
  const [x, y] = [units(a), units(b)];
  // reach[j]: the first i units of x and the first j of y can spell the same beginning.
  const done = new Set<number>();
  const open: [number, number][] = [[0, 0]];
  for (let at = open.pop(); at; at = open.pop()) {
    const [i, j] = at;
    const key = i * (y.length + 1) + j;
    if (done.has(key)) continue;
    done.add(key);
    const [u, v] = [x[i], y[j]];
    if (!u && !v) return true;
    if (u?.star) open.push([i + 1, j]);
    if (v?.star) open.push([i, j + 1]);
    if (u && v && [...u.chars].some((char) => v.chars.includes(char)))
      open.push([u.star ? i : i + 1, v.star ? j : j + 1]);
  }
  return false;
}

function units(glob: string): Unit[] {
  return (glob.match(/\[[!^]?[^\]]*\]|[\s\S]/g) ?? []).map((text) => {
    if (text === '*' || text === '?') return { star: text === '*', chars: ALL };
    if (text.length === 1) return { star: false, chars: text };
    const members = text.slice(1, -1).replace(/^[!^]/, '');
    const chars = members.replace(/([a-z0-9])-([a-z0-9])/g, (_, from: string, to: string) =>
      [...ALL].filter((char) => char >= from && char <= to).join(''),
    );
    const negated = /^\[[!^]/.test(text);
    return {
      star: false,
      chars: negated ? [...ALL].filter((char) => !chars.includes(char)).join('') : chars,
    };
  });
}
