# Carries out commands, in the folder that is the first argument, one for each line that is read.
#
# What a command has left when it has ended is a child of the first process then, beside its `cat`, and has its mark in
# its environment. A process in the middle of `execve` shows none: such processes are looked at again, a hundred
# times at most, as some have none for good. Shells read a line byte by byte, but a file in blocks, and a command is
# long: hence a file.
# Processes that the kernel has killed for want of memory are counted in one of two places.
refuse() {
    read -r turn # nothing is to be said before
    echo "there is no $1" >&2
    exit 1
}
command -v cat >/dev/null || refuse cat
cd "$1" 2>/dev/null || refuse "$1"
ulimit -c 0
counters=
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] && counters=$file
done
while read -r turn; do
    export RUN_OF_AIOCG="$1:$turn."
    . ./command &
    wait $!
    status=$?
    found=1 looks=0
    while [ "$found" ]; do
        found= keeper= left=
        read -r keeper left </proc/1/task/1/children
        for pid in $left; do
            case $(cat "/proc/$pid/environ") in
                *"RUN_OF_AIOCG=$RUN_OF_AIOCG"*) kill -KILL "$pid" && found=1 ;;
                "") [ "$((looks += 1))" -le 100 ] && found=1 ;;
            esac
        done
    done 2>/dev/null
    killed=0
    if [ "$status" != 0 ] && [ "$counters" ]; then
        while read -r key value; do
            [ "$key" = oom_kill ] && killed=$value
        done <"$counters"
    fi
    echo "$turn $status $killed"
done
