// flags: -O2
// A look at the card of a store, in front of it; and stores that need none.
struct s { long a, b, c; };
// CHECK-LABEL: @one(
// CHECK-NOT: br
// CHECK: %[[LINE:.*]] = lshr i64 %{{.*}}, 6
// CHECK: add i64 %{{.*}}, 35184372088832
// CHECK: %[[CARD:.*]] = load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK-NOT: load i8, ptr %{{.*}}, align 1, !nosanitize
// CHECK: icmp eq i8 %[[CARD]], 0
// CHECK: br i1 %{{.*}}, label %{{.*}}, label %{{.*}}, !prof
// CHECK: call {{.*}}(ptr @perdure.mark_lines, i64 %[[LINE]], i64 %[[LINE]])
// CHECK: store i64
void one(long *p) { *p = 1; }
// Neighbours share one mark.
// CHECK-LABEL: @group(
// CHECK: %[[FIRST:.*]] = lshr i64 %{{.*}}, 6
// CHECK: %[[END:.*]] = add i64 %{{.*}}, 23
// CHECK: %[[LAST:.*]] = lshr i64 %[[END]], 6
// CHECK: call {{.*}}(ptr @perdure.mark_lines, i64 %[[FIRST]], i64 %[[LAST]])
// CHECK: store i64
// CHECK-NOT: perdure.mark
// CHECK: ret void
void group(struct s *p, long v) { p->a = v; p->c = v + 1; p->b = v * 2; }
// The second is covered by the first, on both paths.
// CHECK-LABEL: @twice(
// CHECK-COUNT-1: @perdure.mark_lines
// CHECK-NOT: @perdure.mark_lines
// CHECK: ret void
extern long seen;
void twice(struct s *p, long *q, int c) { p->a = 1; if (c) seen = *q; p->a = 3; }
// What is certain to come in a later block is taken along; what is not has a mark of its own.
// CHECK-LABEL: @ahead(
// CHECK: add i64 %{{.*}}, 23
// CHECK-COUNT-1: @perdure.mark_lines
// CHECK-NOT: @perdure.mark_lines
// CHECK: ret void
void ahead(struct s *p, long *q, int c) { p->a = 1; if (c) seen = *q; p->c = 3; }
// CHECK-LABEL: @unsure(
// CHECK-COUNT-2: @perdure.mark_lines
// CHECK: ret void
void unsure(struct s *p, int c) { p->a = 1; if (c) p->c = 3; }
// A commit may hide in any call.
// CHECK-LABEL: @between(
// CHECK-COUNT-2: @perdure.mark_lines
// CHECK: ret void
void between(struct s *p) { extern void other(void); p->a = 1; other(); p->a = 3; }
// Nor is anything known after an acquire.
// CHECK-LABEL: @acquire(
// CHECK-COUNT-2: @perdure.mark_lines
// CHECK: ret void
void acquire(struct s *p, int *l) { p->a = 1; while (__atomic_load_n(l, __ATOMIC_ACQUIRE)) {} p->a = 3; }
// CHECK-LABEL: @relaxed(
// CHECK-COUNT-1: @perdure.mark_lines
// CHECK-NOT: @perdure.mark_lines
// CHECK: ret void
void relaxed(struct s *p, int *l) { p->a = 1; while (__atomic_load_n(l, __ATOMIC_RELAXED)) {} p->a = 3; }
// The stack, globals and blocks fresh from malloc are not in the arena.
long global; _Thread_local long local; void *malloc(unsigned long); void use(void *);
// CHECK-LABEL: @foreign(
// CHECK-NOT: perdure.mark
// CHECK: ret void
void foreign(long v) { volatile long x = v; global = v; local = v; long *m = malloc(80); m[3] = v; x = 2; use(m); }
