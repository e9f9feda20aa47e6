// What is delivered where a guard is switched off by configuration: the credential itself, with the best that can be done
// from inside the sandbox. For GitHub a credential helper that releases a token for the allowed paths only, and a bare
// GITHUB_TOKEN only for a written-out `*`; for a cluster the reduced kubeconfig. Neither is a boundary, and the summary
// says "unguarded", so that nobody takes it for one.

import { Credential } from '../../common/credential.ts';
import { GITHUB_USERNAME } from '../kinds/github-pat.ts';
import {
  describeKubeconfig,
  hostBound,
  mergeKubeconfigs,
  parseKubeconfig,
  printKubeconfig,
} from '../kinds/kubeconfig.ts';
import type { Denied, DirectMaterial, MaterialFile } from '../material.ts';
import type { PartOf } from './assemble.ts';

const SCRIPT = 'git-credential-helper';

export function unguardedGit(parts: readonly PartOf<'git'>[]): DirectMaterial {
  const credentials = parts.map(({ part }) => part.credential);
  const open = credentials.find(({ repos }) => repos.includes('*'));
  const file = (name: string, content: string): MaterialFile => ({ name, content: new Credential(content) });
  const hosts = [...new Set(credentials.map(({ upstream }) => upstream))];
  const writes = credentials.some(({ permissions = [] }) =>
    permissions.some((p) => p === '*' || p === 'contents:write'),
  );
  return {
    type: 'direct',
    grants: parts.map(({ grant }) => grant.ref),
    env: {
      ...(open && { GITHUB_TOKEN: open.token }),
      POSTERN_GIT_REPOS: [...new Set(credentials.flatMap(({ repos }) => repos))].join(','),
      POSTERN_GIT_MODE: writes ? 'read-write' : 'read-only',
    },
    files: [
      {
        ...file('gitconfig', gitconfig(hosts)),
        variable: { name: 'GIT_CONFIG_GLOBAL', pointsAt: 'file' },
      },
      file(SCRIPT, helperScript(parts)),
      ...credentials.map(({ token }, i) => ({ name: `git-token-${i + 1}`, content: token })),
    ],
    mounts: [],
    devices: [],
    summary: `unguarded: ${credentials.flatMap(({ repos }) => repos).join(', ')}; kept by a credential helper in the sandbox`,
  };
}

/** The helper finds its folder through the variable that brought git here, so the files can lie anywhere. */
function gitconfig(hosts: readonly string[]): string {
  return [
    '[include]',
    '\tpath = ~/.gitconfig',
    ...hosts.flatMap((host) => [
      `[credential "${host}"]`,
      '\tuseHttpPath = true',
      '\thelper =',
      `\thelper = "!sh \\"\${GIT_CONFIG_GLOBAL%/*}/${SCRIPT}\\""`,
    ]),
    '',
  ].join('\n');
}

/** sh, because that is there. A path is compared only when it is exactly owner/repo: `*` of a shell crosses slashes. */
function helperScript(parts: readonly PartOf<'git'>[]): string {
  const cases = parts.flatMap(({ part: { credential } }, i) => {
    const { protocol, host } = new URL(credential.upstream);
    const where = `${protocol.slice(0, -1)}|${host}|`;
    return credential.repos.map(
      (repo) =>
        `  ${word(where)}${repo === '*' ? '*/*' : pattern(repo)}) give ${i + 1} ${word(credential.username ?? GITHUB_USERNAME)} ;;`,
    );
  });
  return `# Written by postern. Releases a token for the repositories of its grant and for nothing else.
test "$1" = get || exit 0
dir=\${GIT_CONFIG_GLOBAL%/*}
give() { printf 'username=%s\\npassword=' "$2"; cat "$dir/git-token-$1"; printf '\\n'; exit 0; }
protocol= host= path=
while IFS='=' read -r key value && test -n "$key"; do
  case $key in protocol) protocol=$value ;; host) host=$value ;; path) path=$value ;; esac
done
path=$(printf %s "$path" | tr '[:upper:]' '[:lower:]')
path=\${path%/} path=\${path%.git}
case $path in */*/* | /* | */ | *..* | *[!a-z0-9._/-]*) exit 0 ;; */*) ;; *) exit 0 ;; esac
case "$protocol|$host|$path" in
${cases.join('\n')}
esac
`;
}

/** A shell pattern that means what the glob means: only the wildcards stay unquoted. */
function pattern(repo: string): string {
  return repo
    .toLowerCase()
    .split(/([*?]|\[[^\]]*\])/)
    .map((piece, i) => (i % 2 === 1 ? piece.replace('[^', '[!') : piece === '' ? '' : word(piece)))
    .join('');
}

function word(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function unguardedKube(parts: readonly PartOf<'kube'>[]): {
  readonly material?: DirectMaterial;
  readonly denied: readonly Denied[];
} {
  const denied: Denied[] = [];
  const kept = parts.flatMap(({ grant, part }) => {
    const document = parseKubeconfig(part.cluster.kubeconfig.reveal());
    const bound = hostBound(document);
    if (bound === undefined) return [{ from: grant.ref.secretName, document, ref: grant.ref }];
    denied.push({
      ...grant.ref,
      reason: `its kubeconfig has ${bound}, which works on this host only, and the guard is off`,
    });
    return [];
  });
  if (kept.length === 0) return { denied };
  const merged = mergeKubeconfigs(kept);
  return {
    denied,
    material: {
      type: 'direct',
      grants: kept.map(({ ref }) => ref),
      env: {},
      files: [
        {
          name: 'kubeconfig',
          content: new Credential(printKubeconfig(merged)),
          variable: { name: 'KUBECONFIG', pointsAt: 'file' },
        },
      ],
      mounts: [],
      devices: [],
      summary: `unguarded: ${describeKubeconfig(merged)}; verbs and namespaces are kept by nobody`,
    },
  };
}
