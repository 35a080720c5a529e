// flags: -O2 -fno-vectorize -fno-unroll-loops
// Rows of which nobody knows how long they are, but that they are not empty: one mark in front of the outer loop.
// CHECK-LABEL: @matrix(
// CHECK: mul
// CHECK: call {{.*}}(ptr @perdure.mark,
// CHECK-NOT: (ptr @perdure.mark
// CHECK: store double
// CHECK-NOT: (ptr @perdure.mark
// CHECK: ret void
void matrix(double *m, long r, long c) {
  __builtin_assume(c > 0);
  for (long i = 0; i < r; i++)
    for (long j = 0; j < c; j++) m[i * c + j] = i + j;
}
