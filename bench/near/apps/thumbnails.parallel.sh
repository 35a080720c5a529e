#!/usr/bin/env bash
# What somebody writes who has GNU parallel, a login and the place of the export; one job for each of the two processors.
export=$2
ssh host1 "mkdir -p $export/images/thumbs && ls $export/images/*.jpg" |
    parallel --will-cite -n 3 -S 2/host1 "cd $export/images && mogrify -format gif -path thumbs -thumbnail 100x100"
ls "$1/host1/images/thumbs" | wc -l
