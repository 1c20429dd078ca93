H_UMASK=$(umask)
umask 077
say() { printf '\036%s %s\n' "$H_TAG" "$*" 2>/dev/null; }
# The last step of a refusal: what comes after it on stdin is nobody's.
fail() {
    [ -z "$H_DIR" ] || rm -rf "$H_DIR"
    say fail "$@"
    exit 97
}
# take BYTES FILE: exactly so many bytes of stdin. `head -c` of busybox reads more than it gives; `dd` with one block never does.
take() {
    got=0
    : >"$2" || return 1
    while [ "$got" -lt "$1" ]; do
        left=$(($1 - got))
        [ "$left" -le 65536 ] || left=65536
        # The file is not counted: `wc -c` of busybox reads all of it each time.
        now=$((got + $(dd bs="$left" count=1 2>/dev/null | tee -a "$2" 2>/dev/null | wc -c)))
        [ "$now" -gt "$got" ] || return 1
        got=$now
        [ -z "$H_READY" ] || say beat # a long prompt on a slow link is no silence
    done
    [ "$(wc -c <"$2")" -eq "$1" ] # the disk may be full
}
# In memory first: settings are secrets. The trial finds a full disk before what is sent is lost in it.
H_DIR= H_READY=
for place in /dev/shm "${TMPDIR:-/tmp}" "${HOME:-/tmp}"; do
    if mkdir "$place/$H_NAME" 2>/dev/null; then
        H_DIR=$place/$H_NAME
        if printf '%65536s' x 2>/dev/null >"$H_DIR/go" && mkfifo "$H_DIR/in" "$H_DIR/tail" 2>/dev/null; then break; fi
        rm -rf "$H_DIR"
        H_DIR=
    fi
done
[ -n "$H_DIR" ] || fail no-temp
# A process and all below it.
below() {
    if [ -r /proc/self/status ]; then
        grep -s '^PPid:' /proc/[0-9]*/status | sed 's|^/proc/\([0-9]*\)/status:PPid:[^0-9]*|\1 |'
    else
        ps -A -o pid= -o ppid=
    fi | awk -v root="$1" '
        { below[$2] = below[$2] " " $1 }
        $1 == root { todo[last = 1] = root }
        END {
            for (at = 1; at <= last; at++) {
                print todo[at]
                count = split(below[todo[at]], pids, " ")
                for (i = 1; i <= count; i++) todo[++last] = pids[i]
            }
        }'
}
# Until the guard of the supervisor looks at the link, a file here grows, or the link is silent. Nobody waits for this process.
(
    (
        trap '' HUP INT TERM
        exec </dev/null >/dev/null 2>&1
        idle=0 before=
        while sleep 1 && [ -d "$H_DIR" ] && [ ! -e "$H_DIR/seen" ]; do
            kill -0 $$ 2>/dev/null || { rm -rf "$H_DIR"; exit; } # its id may be another process's soon
            now=$(ls -ln "$H_DIR")
            idle=$((idle + 1))
            [ "$now" = "$before" ] || idle=0 before=$now
            if [ "$idle" -ge "$H_PATIENCE" ]; then
                rm -rf "$H_DIR"
                self=$(exec sh -c 'echo $PPID') # the first process of a container is the parent of all
                # shellcheck disable=SC2046 - many pids
                kill -KILL $$ $(below $$ | grep -vx "$self")
            fi
        done
    ) &
)
take "$H_SIZE" "$H_DIR/go" || fail no-temp
. "$H_DIR/go"
