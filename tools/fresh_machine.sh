#!/bin/sh
# Runs `make test` on a machine that has nothing: a chroot of Debian 13 (Python 3.13, OpenJDK 21) with a clone of the last
# commit. Needs root, debootstrap, some 6 GB and about 25 minutes on two cores. Prints the closing lines of the tests.
#
#   FRESH_DIR=DIR         where the chroot is made; otherwise a new folder in TMPDIR. It is removed at the end
#   FRESH_KEEP=yes        keeps it, with the log of the run in DIR/root/test.log
#   FRESH_COMMAND="..."   what is run in the clone instead of `make test`
#
# The mirror is the one that apt uses here; certificates and settings of pip are those of this machine.
set -eu
cd "$(dirname "$0")/.."

suite=trixie
packages=python3,python3-venv,make,git,openjdk-21-jre-headless,ca-certificates
say() { printf '%s\n' "$*" >&2; }

[ "$(id -u)" = 0 ] || { say "A chroot can be made by root only. Run it as root: sudo make fresh"; exit 1; }
command -v debootstrap >/dev/null || { say "debootstrap is not installed. Install it: apt install debootstrap"; exit 1; }
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/*$' | sed -n 1p)
[ -n "$mirror" ] || { say "apt names no mirror of Debian. Name one in /etc/apt/sources.list."; exit 1; }

root=${FRESH_DIR:-$(mktemp -d)}
mkdir -p "$root"
root=$(cd "$root" && pwd)

# Folders of this machine that pip's settings name, such as a mirror on disk, are there in the chroot, too.
folders() {
    { python3 -m pip config list 2>/dev/null; env | grep '^PIP_'; } | tr "\\047 =" '\n\n\n' | sed 's,^file://,,' |
        grep '^/' | while read -r path; do
        while [ "$(dirname "$path")" != / ] && [ "$(dirname "$(dirname "$path")")" != / ]; do path=$(dirname "$path"); done
        if [ -d "$path" ]; then echo "$path"; fi
    done | grep -v -E '^/(etc|usr|proc|dev|tmp)(/|$)' | sort -u
}

unmount() {
    for place in dev proc $(folders); do
        if mountpoint -q "$root/${place#/}"; then umount -l "$root/${place#/}"; fi
    done
}

finish() {
    unmount
    if [ -z "${FRESH_KEEP:-}" ]; then rm -rf --one-file-system "$root"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ ! -x "$root/usr/bin/make" ]; then
    say "Debian 13 is made in $root."
    debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log" >&2; say "debootstrap failed; its log is $root.log."; exit 1; }
    rm -f "$root.log"
fi
for place in dev proc $(folders); do
    mkdir -p "$root/${place#/}"
    mountpoint -q "$root/${place#/}" || mount --bind "/${place#/}" "$root/${place#/}"
done
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -RL --remove-destination /etc/ssl/certs/. "$root/etc/ssl/certs/"
for settings in /etc/pip.conf /etc/xdg/pip "${HOME:-/root}/.config/pip" "${HOME:-/root}/.pip"; do
    if [ -e "$settings" ]; then
        mkdir -p "$root$(dirname "$settings")"
        cp -RL "$settings" "$root$(dirname "$settings")/"
    fi
done

rm -rf "$root/root/clone"
git clone --quiet --no-hardlinks . "$root/root/clone"
say "$(git -C "$root/root/clone" log -1 --format='%h %s') is tested there: ${FRESH_COMMAND:-make test}"
status=0
env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    $(env | grep -E '^(PIP_[A-Z_]*|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)=[^ ]*$') \
    chroot "$root" sh -c "cd /root/clone && ${FRESH_COMMAND:-make test}" >"$root/root/test.log" 2>&1 || status=$?

chroot "$root" sh -c '. /etc/os-release; echo "$PRETTY_NAME, $(python3 --version), $(java -version 2>&1 | sed -n 1p)"'
grep -E '^(FAILED|ERROR)|^=+ .*(passed|failed|error).* =+$|^(All checks passed|Success:)' "$root/root/test.log" || tail -n 20 "$root/root/test.log"
echo "exit code $status"
exit "$status"
