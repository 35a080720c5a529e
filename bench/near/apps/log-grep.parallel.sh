#!/usr/bin/env bash
# What somebody writes who has GNU parallel, logins and the places of the exports.
export=$2
parallel --will-cite -k --nonall -S host1,host2,host3,host4,host5 "cat $export/logs/*.log | grep '128\.151\.150'"
