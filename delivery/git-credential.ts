// The session's credential for git: a file in git's own credential format (git-credential, "INPUT/OUTPUT FORMAT") and
// the one-line helper that releases it. The helper answers `get` for the guard and nothing else: `store` and `erase`
// are ignored, so that one failed request can't make git throw the credential away or save it somewhere.

import { Credential } from '../common/credential.ts';
import { shellWord } from './quote.ts';

export interface GitLogin {
  readonly baseUrl: string;
  readonly username: string;
  readonly password: Credential;
}

export function credentialFile(login: GitLogin): Credential {
  const { protocol, host } = new URL(login.baseUrl);
  return new Credential(
    `protocol=${protocol.slice(0, -1)}\nhost=${host}\nusername=${login.username}\npassword=${login.password.reveal()}\n`,
  );
}

/**
 * The value of `credential.<guard>.helper`: a shell function, so that the parcel needs no executable (a tmpfs is often
 * mounted noexec). git already scopes it to the guard's URL; it compares protocol and host again all the same, because
 * a helper that is copied into another section must not answer there.
 */
export function credentialHelper(guard: string, file: string): string {
  const { protocol, host } = new URL(guard);
  const wanted = `protocol=${protocol.slice(0, -1)}`;
  return [
    '!f() {',
    'test "$1" = get || return 0; p=; h=;',
    'while IFS= read -r l && test -n "$l"; do',
    `case $l in ${shellWord(wanted)}) p=1 ;; ${shellWord(`host=${host}`)}) h=1 ;; esac;`,
    'done;',
    `test "$p$h" = 11 || return 0; cat ${shellWord(file)};`,
    '}; f',
  ].join(' ');
}
