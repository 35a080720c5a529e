// flags: -O2 -fsanitize=thread
// Cards lie where ThreadSanitizer leaves room for them, and it leaves looks at them alone.
// CHECK-LABEL: @one(
// CHECK: lshr i64 %{{.*}}, 6
// CHECK: add i64 %{{.*}}, 96207267430400
// CHECK: %[[CARD:.*]] = load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK: icmp eq i8 %[[CARD]], 0
// CHECK: call void @__tsan_write8(
// CHECK: store i64
void one(long *p) { *p = 1; }
// A range that may be long is looked at in the arena only, which lies elsewhere, too.
// CHECK-LABEL: @range(
// CHECK: lshr i64 %{{.*}}, 40
void range(char *p, unsigned long n) { __builtin_memset(p, 1, n); }
