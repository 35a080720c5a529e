// What the C++ library has compiled of its strings, once more, to be instrumented: before C++20 programs do not compile it themselves.
// Programs find it before the library's own, so whoever appends to a string in a heap does nothing that is unseen.
#include <string>

template class std::basic_string<char>;
template class std::basic_string<wchar_t>;
template class std::allocator<char>;
template class std::allocator<wchar_t>;
