# Primes below n.
BEGIN {
    for (i = 2; i <= n; i++) {
        if (composite[i]) continue
        count++
        for (j = i * i; j <= n; j += i) composite[j] = 1
    }
    print count
}
