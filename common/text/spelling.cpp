#include "common/text/spelling.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/text/text.h"

namespace coldframe {
namespace {

bool is_numeral(char letter) {
  return letter >= '0' && letter <= '9';
}

// Bytes of the white space that begins here; 0: none does. Spreadsheets write U+00A0, a space that
// does not break.
std::size_t space_at(std::string_view text, std::size_t at) {
  if (text.substr(at).starts_with("\xC2\xA0")) return 2;
  return std::string_view(" \t\n\r").find(text[at]) == std::string_view::npos ? 0 : 1;
}

// U+00C0 to U+00DE are the capitals of Latin-1, but for the multiplication sign.
void lower_latin(std::string& text) {
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    const auto second = static_cast<unsigned char>(text[at + 1]);
    if (text[at] == '\xC3' && second >= 0x80 && second <= 0x9E && second != 0x97)
      text[at + 1] = static_cast<char>(second + 0x20);
  }
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

std::string plain_spelling(std::string_view value) {
  std::string plain;
  bool gap = false;
  for (std::size_t at = 0; at < value.size(); ++at) {
    if (const std::size_t space = space_at(value, at); space > 0) {
      gap = true;
      at += space - 1;
      continue;
    }
    if (gap && !plain.empty() && is_numeral(plain.back()) && is_numeral(value[at])) plain += ' ';
    gap = false;
    plain += value[at];
  }
  plain = lower(plain);
  lower_latin(plain);
  return plain;
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

std::string unify_spelling(std::vector<std::string>& values) {
  std::map<std::string, Counts> spellings;  // by plain spelling
  for (const std::string& value : values)
    if (!value.empty()) ++spellings[plain_spelling(value)][value];
  std::map<std::string, std::string> chosen;
  for (const auto& [plain, counts] : spellings) chosen[plain] = most_frequent(counts);
  return respell(values, [&](const std::string& value) {
    return value.empty() ? value : chosen.at(plain_spelling(value));
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
