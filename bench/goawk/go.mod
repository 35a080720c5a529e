// Only names the version of goawk that the benchmark builds as a peer.
module peers

go 1.20

require github.com/benhoyt/goawk v1.31.0
