// fmt, compiled once for the whole project: its headers alone would be compiled anew in every file that makes
// a sentence, which takes longer than the rest of most files. Our binaries must not need libfmt.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// The definitions that the headers leave to the library.
#if FMT_VERSION < 110000
template void vformat_to<char>(buffer<char>&, basic_string_view<char>, basic_format_args<format_context>,
                               locale_ref);
#endif
template auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale&);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;

}  // namespace detail
FMT_END_NAMESPACE
