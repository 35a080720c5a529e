#!/usr/bin/env bash
# Web servers keep their logs on five machines: every request from one network, in the order of the machines.
mounts=$1
cat "$mounts"/host1/logs/*.log "$mounts"/host2/logs/*.log "$mounts"/host3/logs/*.log "$mounts"/host4/logs/*.log "$mounts"/host5/logs/*.log |
    grep '128\.151\.150'
