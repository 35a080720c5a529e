// flags: -O1
// Callees: known, instrumented here, decided when the program starts, asked when they are called.
#include <stdio.h>
#include <string.h>
// CHECK: @perdure.seen = internal global [3 x i8] zeroinitializer
// CHECK: @perdure.callees = internal externally_initialized global [3 x ptr] [ptr @elsewhere, ptr @given, ptr @main]
// CHECK: @__perdure_instrumented = weak constant i8 1
// CHECK-LABEL: @harmless(
// CHECK-NOT: perdure
// CHECK: ret i64
long harmless(const char *s, char *t) { printf("%s\n", s); puts(t); return strlen(s); }
// CHECK-LABEL: @reads(
// CHECK: %[[N:.*]] = {{.*}}call i64 @read(
// CHECK: lshr i64 %{{.*}}, 44
// CHECK: icmp eq i64 %{{.*}}, 1
// CHECK: call {{.*}}(ptr @perdure.mark,
long read(int, void *, unsigned long);
long reads(char *p, unsigned long n) { return read(0, p, n); }
// CHECK-LABEL: @unknown(
// CHECK: load i8, ptr @perdure.seen
// CHECK: call {{.*}}(ptr @perdure.enter)
// CHECK: call void @elsewhere
// CHECK: call {{.*}}(ptr @perdure.leave)
void elsewhere(void *);
void unknown(void *p) { elsewhere(p); *(char *)p = 1; }
// A call in tail position stays one.
// CHECK-LABEL: @tail(
// CHECK: tail call void @elsewhere(ptr {{.*}})
// CHECK-NEXT: ret void
void tail(void *p) { elsewhere(p); }
// CHECK-LABEL: @pointer(
// CHECK: load i32, ptr %{{.*}}, align 4
// CHECK: icmp eq i32 %{{.*}}, 1171299933
void pointer(void (*f)(int)) { f(1); f(2); }
// CHECK-LABEL: @assembly(
// CHECK: store atomic i8 1, ptr @__perdure_unseen
// CHECK: call void asm
// CHECK: store atomic i8 1, ptr @__perdure_unseen
void assembly(long *p) { asm volatile("movq $1, (%0)" ::"r"(p) : "memory"); }
// CHECK-LABEL: @fence(
// CHECK-NOT: perdure
// CHECK: ret void
void fence(void) { asm volatile("mfence" ::: "memory"); }
void given(void);
void (*kept)(void) = given;
// What is entered and left: the flag first, so that a commit finds one of the two.
// CHECK: define {{.*}} @perdure.enter()
// CHECK: store atomic i8 1, ptr @__perdure_unseen monotonic
// CHECK: atomicrmw add ptr @__perdure_unseen_calls, i64 1 monotonic
// CHECK: define {{.*}} @perdure.leave()
// CHECK: store atomic i8 1, ptr @__perdure_unseen monotonic
// CHECK: atomicrmw sub ptr @__perdure_unseen_calls, i64 1 release
// CHECK: define internal void @perdure.ask()
