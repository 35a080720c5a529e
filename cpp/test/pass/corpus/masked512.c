// flags: -mavx512f -mavx512vl -mavx512bw -mavx2 -mprefer-vector-width=512
#include "masked.c"
