#!/bin/sh
# Runs `make test` of the committed tree on a machine that has nothing yet: Debian 13 with its Python and its Java, in a
# chroot. Prints the closing lines. It needs root and debootstrap, and takes about 25 minutes on two cores.
#
#   sh tools/fresh_machine.sh [DIR]   DIR is the machine, made anew; otherwise a temporary folder, removed at the end
#   FRESH_COMMAND="make setup"        what to run instead of `make test`
#
# The mirror is that of apt; certificates, settings of pip and the local folders that these name come from this machine.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

[ "$(id -u)" = 0 ] || { say "A fresh machine needs root: it is a chroot. Run: sudo make fresh"; exit 1; }
command -v debootstrap >/dev/null || {
    say "debootstrap is missing. Install it: apt install debootstrap"
    exit 1
}
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p)
[ -n "$mirror" ] || { say "apt names no mirror of Debian. Give it one, and run: apt-get update"; exit 1; }

machine=${1:-$(mktemp -d)}
case $machine in /*) ;; *) machine=$PWD/$machine ;; esac
keep=${1:-}
[ ! -e "$machine" ] || rmdir "$machine" 2>/dev/null || { say "$machine is not an empty folder. Name another one."; exit 1; }
mkdir -p "$machine"
log=$machine/run.log
root=$machine/root
mounted=''
home=/srv

# mount_at PLACE OPTIONS...: the last one first, so that they are unmounted in that order.
mount_at() {
    place=$root$1
    shift
    mkdir -p "$place"
    mount "$@" "$place"
    mounted="$place $mounted"
}

end() {
    for place in $mounted; do umount --recursive "$place" || umount --lazy "$place"; done
    mounted=''
    [ -n "$keep" ] || rm -rf --one-file-system "$machine"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

say "Making a machine in $machine; with make test it takes about 25 minutes."
debootstrap --variant=minbase --include=python3,python3-venv,make,git,openjdk-21-jre-headless,ca-certificates \
    trixie "$root" "$mirror" >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
mount_at /proc -t proc proc
mount_at /dev --rbind /dev --make-rslave

# What the network of this machine needs: names, certificates and settings of pip.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
for settings in /etc/pip.conf /etc/xdg/pip "$HOME/.config/pip" "$HOME/.pip"; do
    case $settings in "$HOME"/*) place=$root$home${settings#"$HOME"} ;; *) place=$root$settings ;; esac
    [ ! -e "$settings" ] || { mkdir -p "$(dirname "$place")"; cp -RL "$settings" "$place"; }
done
# An index on disk names files beside its own folder, so all of /first/second is bound.
for folder in $(python3 -m pip config list | grep -oE "(file://)?/[^ '\\\\]+" | sed 's,^file://,,' | cut -d/ -f1-3 | sort -u); do
    case $folder in /etc/* | /usr/* | "$HOME"*) continue ;; esac
    [ ! -d "$folder" ] || mount_at "$folder" --bind -o ro "$folder"
done

git clone --quiet --no-hardlinks . "$root$home/wmlab"
set -- "HOME=$home" LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\|[A-Z_]*CERT[A-Z_]*\|[A-Z_]*CA_BUNDLE\|[A-Za-z]*_[Pp][Rr][Oo][Xx][Yy]\)=.*/\1/p'); do
    set -- "$@" "$name=$(printenv "$name")"
done
code=0
chroot "$root" env -i "$@" sh -c "cd $home/wmlab && ${FRESH_COMMAND:-make test}" >>"$log" 2>&1 || code=$?
chroot "$root" sh -c '. /etc/os-release; echo "$PRETTY_NAME"; python3 --version; java -version 2>&1 | sed -n 1p'
grep -E '^(=+ .* =+|FAILED|ERROR|make: )' "$log" | grep -vE 'test session starts|warnings summary|short test summary' || tail -n 20 "$log"
say "It ended with $code.${keep:+ All that it said: $log}"
exit "$code"
