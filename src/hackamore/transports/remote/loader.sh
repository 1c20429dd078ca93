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
    done
    [ "$(wc -c <"$2")" -eq "$1" ] # the disk may be full
}
# In memory first: settings are secrets. The trial finds a full disk before what is sent is lost in it.
H_DIR=
for place in /dev/shm "${TMPDIR:-/tmp}" "${HOME:-/tmp}"; do
    if mkdir "$place/$H_NAME" 2>/dev/null; then
        H_DIR=$place/$H_NAME
        if printf '%65536s' x 2>/dev/null >"$H_DIR/go" && mkfifo "$H_DIR/in" "$H_DIR/tail" 2>/dev/null; then break; fi
        rm -rf "$H_DIR"
        H_DIR=
    fi
done
[ -n "$H_DIR" ] || fail no-temp
take "$H_SIZE" "$H_DIR/go" || fail no-temp
. "$H_DIR/go"
