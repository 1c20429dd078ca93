# Sends a conversation to where the CLI over there looks for it. A file with the last entry of the copy is newer, or the same: it ran
# there, and a store may lag.
H_HOME=$HOME H_PROJECT=$(settings; cd "${H_CWD:-.}" && pwd -P)
# A `-` for each unit of UTF-16: none for the later bytes of a character, two for one of four bytes.
H_PROJECT=$(
    export LC_ALL=C
    printf %s "$H_PROJECT" | tr -d '\200-\277' | tr -c 'A-Za-z0-9\360-\367' - | sed 's/[^A-Za-z0-9-]/--/g'
)
# Without `HOME` the CLI takes the home folder of the user.
H_PROJECT=$(settings; printf %s "${CLAUDE_CONFIG_DIR:-${HOME:-$H_HOME}/.claude}/projects/")$H_PROJECT
bring() {
    take "$1" "$H_DIR/brought" || fail no-temp
    if grep -qsF "$3" "$H_PROJECT/$2"; then return; fi
    mkdir -p "$(dirname "$H_PROJECT/$2")" && cp "$H_DIR/brought" "$H_PROJECT/$2" 2>/dev/null || fail no-temp
    rm -f "$H_DIR/brought"
}
