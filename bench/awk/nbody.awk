# The sun and four planets, n steps: float arithmetic in functions on elements of arrays.
function energy(    i, j, dx, dy, dz, e) {
    for (i = 0; i < 5; i++) {
        e += 0.5 * m[i] * (vx[i] * vx[i] + vy[i] * vy[i] + vz[i] * vz[i])
        for (j = i + 1; j < 5; j++) {
            dx = x[i] - x[j]; dy = y[i] - y[j]; dz = z[i] - z[j]
            e -= m[i] * m[j] / sqrt(dx * dx + dy * dy + dz * dz)
        }
    }
    return e
}
function advance(dt,    i, j, dx, dy, dz, d2, mag) {
    for (i = 0; i < 5; i++) {
        for (j = i + 1; j < 5; j++) {
            dx = x[i] - x[j]; dy = y[i] - y[j]; dz = z[i] - z[j]
            d2 = dx * dx + dy * dy + dz * dz
            mag = dt / (d2 * sqrt(d2))
            vx[i] -= dx * m[j] * mag; vy[i] -= dy * m[j] * mag; vz[i] -= dz * m[j] * mag
            vx[j] += dx * m[i] * mag; vy[j] += dy * m[i] * mag; vz[j] += dz * m[i] * mag
        }
    }
    for (i = 0; i < 5; i++) {
        x[i] += dt * vx[i]; y[i] += dt * vy[i]; z[i] += dt * vz[i]
    }
}
function body(px, py, pz, wx, wy, wz, mass) {
    x[k] = px; y[k] = py; z[k] = pz
    vx[k] = wx * 365.24; vy[k] = wy * 365.24; vz[k] = wz * 365.24
    m[k++] = mass * 39.47841760435743
}
BEGIN {
    k = 0
    body(0, 0, 0, 0, 0, 0, 1)
    body(4.84143144246472090, -1.16032004402742839, -0.103622044471123109, 0.00166007664274403694, 0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609)
    body(8.34336671824457987, 4.12479856412430479, -0.403523417114321381, -0.00276742510726411147, 0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812)
    body(12.8943695621391310, -15.1111514016986312, -0.223307578892655734, 0.00296460137564761618, 0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298)
    body(15.3796971148509165, -25.9193146099879641, 0.179258772950371181, 0.00268067772490389322, 0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451)
    for (i = 1; i < 5; i++) {
        px += vx[i] * m[i]; py += vy[i] * m[i]; pz += vz[i] * m[i]
    }
    vx[0] = -px / 39.47841760435743; vy[0] = -py / 39.47841760435743; vz[0] = -pz / 39.47841760435743
    printf "%.9f\n", energy()
    for (step = 0; step < n; step++) advance(0.01)
    printf "%.9f\n", energy()
}
