#include "common/text/model_card.h"

#include <algorithm>

#include "common/text/text.h"

namespace coldframe {
namespace {

// Takes lines up to the next one that `begins` a part; what lies before the first is under "".
template <typename Begins>
CardParts divide(const std::string& text, const Begins& begins) {
  CardParts parts = {{"", ""}};
  for (const std::string& line : split(text, '\n')) {
    if (const auto [name, rest] = begins(line); !name.empty())
      parts.emplace_back(name, rest);
    else
      parts.back().second += line + "\n";
  }
  return parts;
}

// "key: value" at the beginning of a line.
std::pair<std::string, std::string> key_of(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos || colon == 0 || line[0] == ' ' || line[0] == '-') return {};
  return {line.substr(0, colon), line.substr(colon + 1) + "\n"};
}

std::pair<std::string, std::string> heading_of(const std::string& line) {
  if (!line.starts_with("## ")) return {};
  return {trim(line.substr(3)), ""};
}

}  // namespace

void put(CardParts& parts, const std::string& name, const std::string& text) {
  const auto there = std::ranges::find(parts, name, &std::pair<std::string, std::string>::first);
  if (there == parts.end())
    parts.emplace_back(name, text);
  else
    there->second = text;
}

ModelCard read_model_card(std::string text) {
  constexpr std::string_view kFence = "---\n", kEnd = "\n---\n";
  std::erase(text, '\r');
  text += '\n';
  ModelCard card;
  const std::size_t end = text.find(kEnd);
  if (text.starts_with(kFence) && end != text.npos) {
    for (const auto& [key, value] : divide(text.substr(kFence.size(), end - kFence.size()), key_of))
      if (!key.empty()) put(card.keys, key, value);
    text.erase(0, end + kEnd.size());
  }
  for (const auto& [name, section] : divide(trim(text), heading_of))
    if (!name.empty() || !trim(section).empty()) put(card.sections, name, trim(section) + "\n");
  return card;
}

std::string value_of(const ModelCard& card, std::string_view key) {
  for (const auto& [name, value] : card.keys) {
    if (name != key) continue;
    const std::string word = trim(value.substr(0, value.find(" #")));
    for (const char quote : {'"', '\''})
      if (word.size() > 1 && word.front() == quote && word.back() == quote)
        return word.substr(1, word.size() - 2);
    return word;
  }
  return "";
}

}  // namespace coldframe
