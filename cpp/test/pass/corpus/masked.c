// flags: -mavx2
// Conditional stores in loops, which become masked stores.
#include "../heap.h"
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#define F __attribute__((noinline)) static
F void ifs(int *restrict p, const int *restrict q, int n) { for (int i = 0; i < n; i++) if (q[i] > 100) p[i] = q[i]; }
F void ifd(double *restrict p, const double *restrict q, int n) { for (int i = 0; i < n; i++) if (q[i] < 0.5) p[i] = q[i]; }
F void ifc(char *restrict p, const char *restrict q, int n) { for (int i = 0; i < n; i++) if (q[i] == 3) p[i] = 1; }
F void pairs(int *restrict p, const int *restrict q, int n) { for (int i = 0; i < n; i++) if (q[i] & 1) { p[2 * i] = 1; p[2 * i + 1] = q[i]; } }
F void scatter(int *restrict p, const int *restrict idx, int n) { for (int i = 0; i < n; i++) p[idx[i]] = i; }
#ifdef __AVX512F__
F void wide(int *p, __mmask16 m, __m512i v) { _mm512_mask_storeu_epi32(p, m, v); }
F void squeeze(int *p, __mmask16 m, __m512i v) { _mm512_mask_compressstoreu_epi32(p, m, v); }
F void spread(int *p, __m512i idx, __m512i v) { _mm512_i32scatter_epi32(p, idx, v, 4); }
F void narrow(char *p, __mmask16 m, __m512i v) { _mm512_mask_cvtepi32_storeu_epi8(p, m, v); }
#endif
int main(void) {
#ifdef __AVX512F__
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw")) return 0;
#endif
  if (!__builtin_cpu_supports("avx2")) return 0;
  int *q = perdure_alloc(4096), *p = perdure_alloc(8192); char *e = perdure_alloc_last(640);
  for (int i = 0; i < 1024; i++) q[i] = (i * 7919) % 211;
  memset(p, 0, 8192); memset(e, 0, 640);
  perdure_commit();
  for (int n = 0; n < 1000; n = n * 2 + 3) {
    for (int o = 0; o < 20; o += 3) {
      ifs(p + o, q + o, n); EXACT(); perdure_commit(); ifc((char *)p + o, (char *)q, n); EXACT(); perdure_commit();
      pairs(p + o, q + o, n); EXACT(); perdure_commit();
    }
    ifd((double *)p, (double *)q, n / 2); EXACT(); perdure_commit();
    scatter(p, q, n); EXACT(); perdure_commit();
  }
  ifs((int *)e, q, 160); EXACT(); perdure_commit(); ifs((int *)(e + 600), q, 10); EXACT(); perdure_commit();
  for (int i = 0; i < 16; i++) {
    __m128i mask = _mm_setr_epi32(-(i & 1), -(i >> 1 & 1), -(i >> 2 & 1), -(i >> 3)), v = _mm_set1_epi32(i + 1000);
    _mm_maskstore_epi32(p + 13 + i, mask, v); EXACT(); perdure_commit();
    _mm_maskmoveu_si128(v, _mm_slli_epi32(mask, 7), (char *)p + 50 + i); EXACT(); perdure_commit();
    _mm256_maskstore_ps((float *)p + 100 + i, _mm256_set_m128i(mask, mask), _mm256_set1_ps(i)); EXACT(); perdure_commit();
    _mm_stream_si128((__m128i *)p + i, v); EXACT(); perdure_commit();
    _mm_maskstore_epi32((int *)(e + 640) - 4, mask, v); EXACT(); perdure_commit();
  }
  *(unsigned *)(p + 900) = 0; _mm_prefetch((char *)p, _MM_HINT_T0); EXACT(); perdure_commit();
#ifdef __AVX512F__
  for (int i = 0; i < 65536; i += 257) {
    wide(p + (i & 63), i, _mm512_set1_epi32(i)); EXACT(); perdure_commit();
    wide((int *)(e + 640) - 16, i, _mm512_set1_epi32(i)); EXACT(); perdure_commit();
    squeeze(p + (i & 31), i, _mm512_set1_epi32(i + 1)); EXACT(); perdure_commit();
    squeeze((int *)(e + 640) - __builtin_popcount(i), i, _mm512_set1_epi32(i + 1)); EXACT(); perdure_commit();
  }
  spread(p, _mm512_mullo_epi32(_mm512_loadu_si512(q), _mm512_set1_epi32(7)), _mm512_set1_epi32(77)); perdure_commit();
  narrow((char *)p + 77, 0x5555, _mm512_set1_epi32(66)); perdure_commit();
#endif
  unsigned long sum = 0; for (int i = 0; i < 2048; i++) sum = sum * 31 + p[i];
  printf("%lu\n", sum);
}
