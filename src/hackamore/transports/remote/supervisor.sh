# Owns one CLI on this machine: starts it, sees that it ends with the link, reports how it ended. For dash, bash and busybox.
#
# Three processes watch, so that one that is killed or stopped is not missed: this one waits for the CLI; the beater writes a sign of life
# each second, and sees by it that nobody reads any more; the guard looks for signs of life from the other side, and after this one.
rm -f "$H_DIR/go"

# Its seconds are counted, not read from a clock: clocks step. One by one: whoever naps may be killed, and its `sleep` stays.
nap() {
    slept=0
    while [ "$slept" -lt "$1" ]; do
        sleep 1 </dev/null >/dev/null 2>&1
        slept=$((slept + 1))
    done
}

pause() { sleep 0.1 </dev/null >/dev/null 2>&1 || nap 1; } # POSIX has whole seconds only

# A CLI may make the pipe that it shares with this one non-blocking: then a word can find it full. A lost link is SIGPIPE.
broken=
lost() {
    say beat && return 1
    : # the trap runs between commands
    [ -n "$broken" ]
}
tell() {
    until say "$@"; do
        : # as above
        [ -z "$broken" ] || return 0
        pause
    done
}

# Processes that have the mark in their variables.
marked() { grep -ls "$H_MARK" /proc/[0-9]*/environ 2>/dev/null | sed 's/[^0-9]//g'; }

# The CLI and all below it. Its id may be another process's by now: only with the mark it is the one that was started.
tree() {
    if [ -r /proc/self/environ ]; then grep -qs "$H_MARK" "/proc/$cli/environ" || return 0; fi
    below "$cli"
}

sweep() {
    family=$(cat "$H_DIR/family" 2>/dev/null)
    for round in 1 2 3 4 5; do # what is being started while it looks is found in the next round
        # shellcheck disable=SC2046,SC2086 - many pids
        set -- $(marked) $(tree) $family
        family=
        [ $# -gt 0 ] || return 0
        kill -KILL "$@" 2>/dev/null
    done
}

# Ask the CLI to end, then end it. Unless "now" it may finish what it does, if the link lives. This one may be killed at any moment.
cut() {
    how=$1 grace=1 # a link that is lost leaves little time: nobody waits for the end
    for round in 1 2 3; do # the output of a link ends a moment after its input
        [ "$how" != now ] || break
        if grep -q "$H_TAG now" "$H_DIR/last" 2>/dev/null; then how=now grace=$H_KILL; fi
        ! lost || how=now
        pause
    done
    exec >/dev/null 2>&1 # the link ends when the last one who could write to it does
    tree >"$H_DIR/family" # what a CLI leaves behind has another parent
    [ "$how" = now ] || nap "$H_GRACE"
    [ -z "$(tree)" ] || kill -TERM "$cli"
    [ "$how" = now ] || grace=$H_KILL
    nap "$grace"
    sweep
}

# Passes stdin on to the CLI, and ends it after the end. No signal goes to the process that waits for the CLI: shells lose exit codes so.
copy() {
    exec 5<&-
    (exec 2>/dev/null 3<&- 6>&- 8>&- >"$H_DIR/last" && exec tail -c 64 <&7) &
    tail=$!
    (exec >&6 6>&- 2>/dev/null && exec tee "$H_DIR/tail" <&3) & # it has a reader of its own, 7: else its open could wait for ever
    tee=$!
    exec 6>&- 7<&- 8>&-
    wait "$tee"
    if [ $? -gt 128 ]; then # SIGPIPE: the CLI has closed its stdin. Whether the link lives is still to be seen.
        tell deaf
        (exec 2>/dev/null >"$H_DIR/last" && exec tail -c 64 <&3) &
        tail=$!
    fi
    wait "$tail"
    { : >"$H_DIR/ended"; } 2>/dev/null # the folder goes as soon as the CLI has ended
    cut later
}

beat() {
    trap broken=1 PIPE
    until lost; do nap 1; done
    : >"$H_DIR/lost"
    cut now
}

guard() {
    trap '' HUP INT TERM
    rounds=0 idle=0 late=0 armed=
    every=$((H_SILENCE / 3))
    [ "$every" -gt 0 ] || every=1
    silences=$((H_SILENCE / every))
    mkfifo "$H_DIR/try"
    : >"$H_DIR/seen"
    while nap 1; do
        [ -d "$H_DIR" ] || exit 0
        kill -0 "$main" 2>/dev/null || break
        if [ -e "$H_DIR/ended" ] || [ -e "$H_DIR/lost" ]; then
            late=$((late + 1)) # only counts if the process that is to end it is stopped
            most=3
            if [ -e "$H_DIR/last" ] && [ ! -e "$H_DIR/lost" ] && ! grep -q "$H_TAG now" "$H_DIR/last"; then
                most=$((H_GRACE + H_KILL + 3))
            fi
            [ "$late" -le "$most" ] || break
            continue
        fi
        rounds=$((rounds + 1))
        # Each write into a FIFO changes its time. Not on every file system: so the first change arms it. One of its own, as a link may be
        # silent from its first moment; a second after the file, since some shells compare whole seconds.
        if [ "$rounds" -eq 1 ]; then
            printf . 1<>"$H_DIR/try"
            [ "$H_DIR/try" -nt "$H_DIR/seen" ] && armed=1
        fi
        [ $((rounds % every)) -eq 0 ] || continue
        [ "$H_DIR/in" -nt "$H_DIR/seen" ] && armed=1
        # Not the same question: shells that compare whole seconds take a sign of the second of the last look for none.
        if [ "$H_DIR/seen" -nt "$H_DIR/in" ]; then idle=$((idle + 1)); else idle=0; fi
        : >"$H_DIR/seen"
        if [ -n "$armed" ] && [ "$idle" -ge "$silences" ]; then
            rm -f "$H_DIR/in" # tells the first process, which may die late, or never: it can be that of a container
            break
        fi
    done
    sweep
    # shellcheck disable=SC2046 - many pids
    kill -KILL "$main" $(below "$copier") $(below "$beater") 2>/dev/null # those that copy: a link that is stopped has no end for them
    rm -rf "$H_DIR"
}

exec 3<&0 </dev/null
main=$$
trap broken=1 PIPE
# Here, where nothing runs yet, mistakes have names.
case $H_CWD in
'') ;;
*) (cd "$H_CWD") 2>/dev/null || fail no-folder "$H_CWD" ;;
esac
find_program
H_SETSID=$(command -v setsid)
say ready
H_READY=1
# Who opens one end of a FIFO waits for the other: here both are opened, so that no process can wait for ever.
exec 4<>"$H_DIR/in" 5<"$H_DIR/in" 6>"$H_DIR/in"
exec 4<>"$H_DIR/tail" 7<"$H_DIR/tail" 8>"$H_DIR/tail"
exec 4<&-
sink=
if [ -n "$H_STDIN" ]; then
    # The prompt of a one-shot. What comes after it are signs of life.
    take "$H_STDIN" "$H_DIR/prompt" <&3 || fail no-prompt
    (exec 3<&- 6>&- 7<&- 8>&- >/dev/null 2>&1 && exec cat <&5) &
    sink=$!
    exec 5<"$H_DIR/prompt"
    rm -f "$H_DIR/prompt"
fi
(
    exec 3<&- 6>&- 7<&- 8>&- <&5 5<&-
    [ -z "$H_CWD" ] || cd "$H_CWD" || exit 97
    umask "$H_UMASK"
    settings
    run
) &
cli=$!
copy &
copier=$!
exec 3<&- 5<&- 6>&- 7<&- 8>&-
beat &
beater=$!
(
    exec </dev/null >/dev/null 2>&1 # with `guard >...` dash keeps the link open in it
    guard
) &
guarding=$!
trap 'cut now &' HUP INT TERM
while :; do
    wait "$cli"
    code=$?
    kill -0 "$cli" 2>/dev/null || break # a trap ends `wait` as well
done
exec 2>/dev/null # bash tells that a child was killed
# shellcheck disable=SC2046 - many pids
kill -KILL $sink $(below "$copier") $(below "$beater") # with what naps there: it would stay for a second
sweep
[ -e "$H_DIR/in" ] || code= # the guard ended the CLI: that is no exit of its own
rm -rf "$H_DIR"
# shellcheck disable=SC2046 - many pids
kill -KILL $(below "$guarding")
[ -z "$code" ] || tell "exit" "$code"
exit "${code:-97}"
