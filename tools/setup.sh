#!/bin/sh
# Makes .venv, once: the pins of requirements.txt and wmlab itself. Prints nothing when there is nothing to do.
#
#   PYTHON=python3.12   the interpreter to make it from; otherwise the first good one on PATH
#   WMLAB_ENV=DIR       an environment that you keep yourself (conda): it is checked, and nothing is installed
#
# Python and Java are looked at before anything is installed. The stamp is written last, so that an interrupted
# set-up is begun anew; it changes with the pins, pyproject.toml, setup.py, the chosen Python and the place of the clone.
set -eu
cd "$(dirname "$0")/.."

clone=$(pwd)
venv=.venv
stamp=$venv/wmlab-stamp
turn=.wmlab/setup.turn
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf '%s\n' "$*" >&2; }

# --- Python -----------------------------------------------------------------------------------------------------

python_version() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null | sed -n '/^[0-9.]*$/p'
}

# is_at_least_3_11 VERSION
is_at_least_3_11() {
    case $1 in
        3.[0-9].* | 3.10.*) return 1 ;;
        3.* | [4-9].*) return 0 ;;
        *) return 1 ;;
    esac
}

# Sets python and python_is to the first interpreter that is new enough, else leaves them empty; python_found lists
# what was looked at.
find_python() {
    python='' python_is='' python_found=''
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python python3.13 python3.12 python3.11; fi
    for name; do
        path=$(command -v "$name") || continue
        version=$(python_version "$path" || true)
        if is_at_least_3_11 "$version"; then
            python=$path python_is=$version
            return
        fi
        python_found="$python_found
    $path is ${version:-not a Python that answers}"
    done
    python_found=${python_found:-"
    none${PYTHON:+ named $PYTHON}"}
}

lacks_python() {
    say "wmlab needs Python 3.11 or newer. Found:$python_found"
    say "  Either install it as a system package, for example
    Debian, Ubuntu:  apt install python3 python3-venv
    Fedora:          dnf install python3
    macOS:           brew install python
  and name it if it is not the first on PATH: make PYTHON=python3.12 ..."
}

# --- Java -------------------------------------------------------------------------------------------------------

# Sets java_found to a description and java_is to the major version, empty if there is no Java that answers.
# Spark prefers JAVA_HOME to PATH, and so does this.
find_java() {
    java_is='' version=''
    java=$(command -v java || true) origin=''
    if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java origin=' (from JAVA_HOME)'; fi
    if [ ! -x "$java" ]; then
        java_found=none${JAVA_HOME:+", and JAVA_HOME is $JAVA_HOME"}
        return
    fi
    version=$("$java" -version 2>&1 | sed -n 's/^.* version "\([^"]*\)".*$/\1/p' | sed -n 1p)
    java_found="$java$origin is ${version:-not a Java that answers}"
    java_is=${version#1.}
    java_is=${java_is%%[!0-9]*}
}

lacks_java() {
    say "wmlab needs Java 17 or newer, for Spark. Found:
    $java_found"
    say "  Either install it as a system package, for example
    Debian, Ubuntu:  apt install openjdk-17-jre-headless
    Fedora:          dnf install java-21-openjdk-headless
    macOS:           brew install openjdk
  and point JAVA_HOME at it if it is not the first on PATH."
}

offer_conda() {
    say "  Or let conda bring both, Python and Java:
    conda env create -f environment.yml && conda activate wmlab
  and run make again: it then uses that environment."
}

# --- the set-up -------------------------------------------------------------------------------------------------

holds_wmlab='import pathlib, sys, pyspark, jupyterlab, wmlab
sys.exit(pathlib.Path(wmlab.__file__).resolve().parents[1] != pathlib.Path(sys.argv[1]).resolve())'

# An environment kept by hand has to hold wmlab from this clone.
check_kept() {
    kept=$WMLAB_ENV/bin/python
    case $kept in /*) ;; *) kept=$PWD/$kept ;; esac
    is_at_least_3_11 "$(python_version "$kept" || true)" || {
        say "WMLAB_ENV is $WMLAB_ENV, and $kept is not a Python of 3.11 or newer."
        say "  Create it with: conda env create -f environment.yml"
        exit 1
    }
    # It is asked from elsewhere: in the clone Python finds the folder wmlab, whatever the environment holds.
    (cd / && "$kept" -c "$holds_wmlab" "$clone") 2>/dev/null || {
        say "The environment $WMLAB_ENV does not hold wmlab from this clone and what it needs."
        say "  Bring it up to date: conda env update -f environment.yml"
        exit 1
    }
}

# What the stamp of a finished set-up says. The first line may change without a new start.
fingerprint() {
    printf 'project %s\n' "$(cat pyproject.toml setup.py | cksum)"
    printf 'pins %s\n' "$(cksum <requirements.txt)"
    printf 'place %s\n' "$(pwd)"
}

is_done() {
    [ -f "$stamp" ] || return 1
    [ "$(sed '$d' "$stamp")" = "$(fingerprint)" ] || return 1
    [ -z "${PYTHON:-}" ] || [ "$(sed -n '$p' "$stamp")" = "python $python $python_is" ] || return 1
    "$venv/bin/python" -c '' 2>/dev/null
}

# Waits until no other set-up of this clone runs; the turn of a process that is gone is void.
take_turn() {
    mkdir -p .wmlab
    waited=''
    until ln -s "$$" "$turn" 2>/dev/null; do
        holder=$(readlink "$turn" || true)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
            rm -f "$turn"
            continue
        fi
        [ -n "$waited" ] || say "Another set-up is running (process $holder); waiting for it."
        waited=yes
        sleep 1
    done
    trap 'rm -f "$turn"' EXIT
    trap 'exit 130' INT TERM HUP
}

check_venv_module() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null || {
        say "$python ($python_is) cannot make a virtual environment: its ensurepip or venv module is missing."
        say "  Install it as a system package, on Debian and Ubuntu: apt install python${python_is%.*}-venv"
        offer_conda
        exit 1
    }
}

# A finished environment of the same pins, place and Python that still answers.
is_fit_for_reuse() {
    [ -f "$stamp" ] || return 1
    [ "$(sed 1d "$stamp")" = "$(fingerprint | sed 1d; echo "python $python $python_is")" ] || return 1
    "$venv/bin/python" -c '' 2>/dev/null
}

install() {
    if is_fit_for_reuse; then
        say "pyproject.toml or setup.py has changed: installing what they ask for."
    else
        say "Setting up $venv with $python ($python_is); this is done once and takes some minutes."
        rm -rf "$venv"
        "$python" -m venv "$venv"
    fi
    rm -f "$stamp"
    "$venv/bin/python" -m pip install -r requirements.txt -e .
    [ -f "$venv/spark_classes.jsa" ] || "$venv/bin/python" tools/spark_classes.py ||
        say "It goes on without the file that lets Spark start faster."
    { fingerprint; echo "python $python $python_is"; } >"$venv/stamp.new"
    mv "$venv/stamp.new" "$stamp"
    say "Ready. make lab opens JupyterLab; make test runs all tests; make lists the rest."
}

python='' lacking=''
find_java
[ "${java_is:-0}" -ge 17 ] || { lacks_java; lacking=yes; }
if [ -n "${WMLAB_ENV:-}" ]; then
    [ -z "$lacking" ] || { offer_conda; exit 1; }
    check_kept
    exit 0
fi
if [ -n "${PYTHON:-}" ] || ! is_done; then
    find_python
    [ -n "$python" ] || { lacks_python; lacking=yes; }
fi
[ -z "$lacking" ] || { offer_conda; exit 1; }
if is_done; then exit 0; fi
check_venv_module
take_turn
if ! is_done; then install; fi
