# Looks at this machine as a CLI would find it, and writes lines `key value`. Nothing that it makes stays.
rm -f "$H_DIR/go"
version=
trap '[ -z "$version" ] || kill -s KILL -- "-$version" "$version" 2>/dev/null; rm -rf "$H_DIR"' EXIT
trap 'exit 97' HUP INT PIPE TERM
fail() { H_PROGRAM=; }
tell() { printf '%s %s\n' "$1" "$2"; }
shell=$SHELL path=$PATH

look() {
    settings
    PATH=$path # the programs of this script are no matter of the CLI's
    tell system "$(uname -sm)"
    tell user "$(id -un)"
    tell shell "${shell##*/}"
    tell home "$HOME"
    tell temp "${H_DIR%/*}"
    config=${CLAUDE_CONFIG_DIR:-$HOME/.claude}
    until [ -d "$config" ]; do config=$(dirname "$config"); done
    if why=$(mkdir "$config/$H_NAME" 2>&1); then
        rmdir "$config/$H_NAME"
        tell free "$(df -Pk "$config" | awk 'NR == 2 { print $4 }')"
    else
        tell read-only-home "$config (${why##*: })"
    fi
    if [ -z "$H_CWD" ] || cd "$H_CWD"; then tell folder "$(pwd)"; else tell no-folder "$H_CWD"; fi
    locale=${LC_ALL:-${LC_CTYPE:-$LANG}}
    tell locale "$locale"
    case $(LC_ALL=${locale:-C} locale charmap || echo UTF-8) in
    UTF-8) ;;
    *) tell no-locale "${locale:-not set}" ;;
    esac
}

say ready
while read -r word && [ -z "$word" ]; do :; done # after signs of life: the other side takes the time
: >"$H_DIR/seen" # from here each step has its time
tell clock "$(date +%s)"
exec 3<&0 </dev/null 2>/dev/null
(look)
find_program
if [ -n "$H_PROGRAM" ]; then
    tell cli "$H_PROGRAM"
    H_SETSID=$(command -v setsid)
    (
        settings
        exec $H_SETSID "$H_PROGRAM" --version
    ) >"$H_DIR/version" 2>&1 &
    version=$!
    (
        trap : PIPE
        left=20
        while [ $left -gt 0 ] && say beat; do
            sleep 1 >/dev/null
            left=$((left - 1))
        done
        echo "no answer within 20 s" >>"$H_DIR/version"
        kill -s KILL -- "-$version" "$version"
    ) &
    timer=$!
    wait "$version"
    kill -s KILL "$timer" # TERM may be lost in a shell that has just been forked
    version=
    tell version "$(head -c 1000 "$H_DIR/version" | tr '\n' ' ')"
fi
say "exit" 0
