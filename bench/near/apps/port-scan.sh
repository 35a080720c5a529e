#!/usr/bin/env bash
# Which systems route to the hosts that answered, by how many.
scan=$1/host1/scan
cat "$scan/annotated.json" | jq '.ip' | tr -d '"' >"$scan/addresses"
cat "$scan/annotated.json" | jq -c '.zannotate.routing.asn' >"$scan/systems"
pr -mts, "$scan/addresses" "$scan/systems" | awk -F, '{ a[$2]++ } END { for (n in a) print n "," a[n] }' | sort -k2 -n -t, -r >"$scan/popularity"
head -n 5 "$scan/popularity"
wc -l <"$scan/popularity"
