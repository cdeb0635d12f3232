#include "common/text/spelling.h"

#include <utf8proc.h>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <stdexcept>

#include "common/text/text.h"

namespace coldframe {

std::string known_words(const std::vector<std::string>& known, const std::string& word) {
  const std::string near = nearest(word, known);
  return concat(known.empty() ? "none" : join(known, ", "),
                near.empty() ? "" : concat("; did you mean '", near, "'?"));
}

namespace {

bool is_numeral(char letter) {
  return letter >= '0' && letter <= '9';
}

// Every kind of white space, U+00A0 of spreadsheets among them, is a space in NFKC but for these.
bool is_space(std::string_view letter) {
  return letter == " " || letter == "\t" || letter == "\n" || letter == "\r" ||
         letter == "\u1680" || letter == "\u2028" || letter == "\u2029";
}

// Unicode's NFKC_Casefold.
std::string casefold(const std::string& utf8) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(utf8.data()),
                   static_cast<utf8proc_ssize_t>(utf8.size()), &mapped, kOptions);
  if (bytes == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (bytes < 0) throw std::invalid_argument(utf8proc_errmsg(bytes));
  std::string folded(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(bytes));
  std::free(mapped);  // NOLINT: as utf8proc asks
  return folded;
}

// The whole number without the zeros that change nothing; "" for any other text. ("2.10" may be the
// tenth of the second site.)
std::string without_zeros(std::string_view number) {
  const std::size_t digits = std::min(number.find_first_not_of("0123456789"), number.size());
  const std::string_view rest = number.substr(digits);
  const bool whole = rest.empty() || (rest.size() > 1 && rest[0] == '.' &&
                                      rest.find_first_not_of('0', 1) == std::string_view::npos);
  if (digits == 0 || !whole) return "";
  const std::size_t zeros = std::min(number.find_first_not_of('0'), digits - 1);
  return std::string(number.substr(zeros, digits - zeros));
}

using Counts = std::map<std::string, std::size_t>;  // of spellings of one word

std::string most_frequent(const Counts& counts) {
  const auto before = [](const Counts::value_type& a, const Counts::value_type& b) {
    if (a.second != b.second) return a.second > b.second;
    return natural_less(a.first, b.first);
  };
  return std::ranges::min_element(counts, before)->first;
}

// "'Yes' and 'YES' as 'yes', 'No' as 'no' and 3 more"; `replaced`: by chosen spelling.
std::string change_text(const std::map<std::string, std::set<std::string>>& replaced) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> changes;
  for (const auto& [chosen, others] : replaced) {
    if (changes.size() == kShown) break;
    changes.push_back(
        concat("'", join({others.begin(), others.end()}, "' and '"), "' as '", chosen, "'"));
  }
  const std::size_t more = replaced.size() - changes.size();
  return concat(join(changes, ", "), more > 0 ? concat(" and ", more, " more") : "");
}

std::string respell(std::vector<std::string>& values, const auto& spelling_of) {
  std::map<std::string, std::set<std::string>> replaced;
  for (std::string& value : values) {
    const std::string one = spelling_of(value);
    if (one != value) replaced[one].insert(value);
    value = one;
  }
  return replaced.empty() ? "" : change_text(replaced);
}

}  // namespace

std::string as_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string utf8;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xC0 | byte >> 6);
      utf8 += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return utf8;
}

std::string plain_spelling(std::string_view value) {
  const std::string folded = casefold(as_utf8(value));
  std::string plain;
  bool gap = false;
  for (std::size_t at = 0, bytes = 0; at < folded.size(); at += bytes) {
    bytes = std::max<std::size_t>(1, utf8_sequence(folded, at));
    const std::string_view letter = std::string_view(folded).substr(at, bytes);
    if (is_space(letter)) {
      gap = true;
      continue;
    }
    if (gap && !plain.empty() && is_numeral(plain.back()) && is_numeral(letter[0])) plain += ' ';
    gap = false;
    plain += letter;
  }
  return plain;
}

std::string plain_id(std::string_view value) {
  std::string plain = plain_spelling(value);
  std::string number = without_zeros(plain);
  return number.empty() ? plain : number;
}

bool spelt_alike(std::string_view a, std::string_view b) {
  return a == b || plain_spelling(a) == plain_spelling(b);
}

bool same_id(std::string_view a, std::string_view b) {
  return a == b || plain_id(a) == plain_id(b);
}

std::optional<std::pair<std::size_t, std::size_t>> find_equal_numbers(
    const std::vector<std::string>& values) {
  std::map<std::string, std::pair<std::string, std::size_t>> seen;  // by number
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string plain = plain_spelling(values[i]), number = without_zeros(plain);
    if (number.empty()) continue;
    const auto& [before, at] = seen.try_emplace(number, plain, i).first->second;
    if (before != plain) return std::pair(at, i);
  }
  return std::nullopt;
}

std::optional<std::size_t> find_spelling(const std::vector<std::string>& known,
                                         const std::string& value) {
  const auto same = std::ranges::find(known, value);
  if (same != known.end()) return static_cast<std::size_t>(same - known.begin());
  std::optional<std::size_t> alike;
  const std::string plain = plain_spelling(value);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (plain_spelling(known[i]) != plain) continue;
    if (alike) return std::nullopt;
    alike = i;
  }
  return alike;
}

std::string unify_spelling(std::vector<std::string>& values, EqualNumbers numbers) {
  const auto plain_of = numbers == EqualNumbers::kSame ? plain_id : plain_spelling;
  std::map<std::string, Counts> spellings;  // by plain spelling
  for (const std::string& value : values)
    if (!value.empty()) ++spellings[plain_of(value)][value];
  std::map<std::string, std::string> chosen;
  for (const auto& [plain, counts] : spellings) chosen[plain] = most_frequent(counts);
  return respell(values, [&](const std::string& value) {
    return value.empty() ? value : chosen.at(plain_of(value));
  });
}

std::string unify_spelling(std::vector<std::string>& values,
                           const std::vector<std::string>& known) {
  return respell(values, [&](const std::string& value) {
    const auto found = value.empty() ? std::nullopt : find_spelling(known, value);
    return found ? known[*found] : value;
  });
}

}  // namespace coldframe
