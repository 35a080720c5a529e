// flags: -O3 -mavx2 -fno-discard-value-names
// Vectorized loops stay vectorized, with one mark of the range in front of them.
// CHECK-LABEL: @fill(
// CHECK: (ptr @perdure.mark, ptr %{{.*}}, i64 %
// CHECK: vector.body:
// CHECK-NOT: load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK-NOT: (ptr @perdure.mark
// CHECK: store <8 x i32>
// CHECK: br i1
void fill(int *p, long n, int v) { for (long i = 0; i < n; i++) p[i] = v * i; }
// Without a number of iterations that is known, each store is looked at.
// CHECK-LABEL: @until(
// CHECK: load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK: store i8
// CHECK: ret void
void until(volatile char *s, char *d) { while ((*d++ = *s++)) {} }
// Gaps wider than a line are not marked: the next commit would write them.
// CHECK-LABEL: @wide(
// CHECK-NOT: @perdure.mark,
// CHECK: phi
// CHECK: load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK: store i64
// CHECK-NOT: @perdure.mark,
// CHECK: ret void
void wide(long *p, long n) { for (long i = 0; i < n; i++) p[i * 16] = i; }
// Rows of a matrix: one mark for all of it.
// CHECK-LABEL: @rows(
// CHECK-NOT: load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK: (ptr @perdure.mark, ptr %{{[a-z0-9]*}}, i64 8000)
// CHECK-NOT: (ptr @perdure.mark
// CHECK: ret void
void rows(long m[20][50], long v) { for (int i = 0; i < 20; i++) for (int j = 0; j < 50; j++) m[i][j] = v * j; }
// Conditional stores are masked, and the lines of their lanes marked: never lines that no lane touches.
// CHECK-LABEL: @masked(
// CHECK: vector.body:
// CHECK: bitcast <8 x i1> %{{.*}} to i8
// CHECK: cttz
// CHECK: load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK: call void @llvm.masked.store
void masked(int *restrict p, const int *restrict q, long n) { for (long i = 0; i < n; i++) if (q[i]) p[i] = q[i]; }
// A commit in the loop: no mark outlives it.
// CHECK-LABEL: @commits(
// CHECK: phi
// CHECK: load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK: store i64
// CHECK: call {{.*}} @perdure_commit
int perdure_commit(void *);
void commits(long *p, long n) { for (long i = 0; i < n; i++) { p[i] = i; perdure_commit(p); } }
