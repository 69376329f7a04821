# Ends a command whose time is over, with all that it has started: whatever has its mark. Nobody starts a process for
# each command to watch over its time, as that takes as long as some commands do: the client starts this if it must.
found=1
while [ "$found" ]; do
    found=
    for process in /proc/[0-9]*; do
        case $(cat "$process/environ") in
            *"RUN_OF_AIOCG=$1"*) kill -KILL "${process#/proc/}" && found=1 ;;
        esac
    done
done 2>/dev/null
