# How long points of the plane stay: float arithmetic in a loop.
BEGIN {
    for (row = 0; row < n; row++) {
        for (column = 0; column < n; column++) {
            cr = 3 * column / n - 2
            ci = 2 * row / n - 1
            x = y = 0
            for (i = 0; i < 50; i++) {
                xx = x * x
                yy = y * y
                if (xx + yy > 4) break
                y = 2 * x * y + ci
                x = xx - yy + cr
            }
            total += i
        }
    }
    print total
}
