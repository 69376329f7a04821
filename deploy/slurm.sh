#!/bin/sh
# A cluster of aiocg on Slurm, for as long as one command runs:
#
#     sbatch --nodes=4 --ntasks-per-node=1 --exclusive deploy/slurm.sh aiocg search greedy programs-v0/json
#
# The batch script runs on the first of the machines. It invites as many nodes as there are machines, has Slurm start them,
# and runs the command with their workers. AIOCG_TOKEN_FOLDER names a folder that all machines see and only you can read, and
# AIOCG_JOIN_TIMEOUT how many seconds the nodes may take.
set -eu
umask 077
folder=$(mktemp -d "${AIOCG_TOKEN_FOLDER:-$HOME}/.aiocg-join-XXXXXX")
invite= nodes=
trap 'kill $invite $nodes 2>/dev/null || true; wait; rm -rf "$folder"' EXIT INT TERM

timeout "${AIOCG_JOIN_TIMEOUT:-600}" aiocg cluster invite "$folder/hosts.toml" --bind tcp://0.0.0.0:0 --nodes "$SLURM_JOB_NUM_NODES" --token "$folder/token" &
invite=$!
until [ -s "$folder/token" ]; do
    kill -0 $invite
    sleep 0.2
done
srun --ntasks-per-node=1 --overlap aiocg serve --bind tcp://0.0.0.0:0 --trust-clients --join "$folder/token" &
nodes=$!
wait $invite # until all have joined
invite=
AIOCG_CLUSTER="file:$folder/hosts.toml" "$@"
