// Words that stand for values, as command lines and files spell them, read in both directions.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coldframe {

template <typename T>
using WordTable = std::vector<std::pair<const char*, T>>;  // in the order in which messages list it

template <typename T>
std::vector<std::string> words_in(const WordTable<T>& table) {
  std::vector<std::string> words;
  for (const auto& each : table) words.emplace_back(each.first);
  return words;
}

template <typename T>
std::optional<T> value_for(const WordTable<T>& table, std::string_view word) {
  for (const auto& each : table)
    if (word == each.first) return each.second;
  return std::nullopt;
}

// `value` is in the table.
template <typename T>
const char* word_for(const WordTable<T>& table, T value) {
  return std::ranges::find(table, value, &std::pair<const char*, T>::second)->first;
}

}  // namespace coldframe
