// Model cards of the Hugging Face hub: Markdown with front matter, keys in YAML between two lines
// "---" (huggingface.co/docs/hub/model-cards).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coldframe {

// Names and what is under them, in order; each name once.
using CardParts = std::vector<std::pair<std::string, std::string>>;

// Gives `name` this text, in its place, or at the end.
void put(CardParts& parts, const std::string& name, const std::string& text);

struct ModelCard {
  CardParts keys;      // of the front matter: what follows the colon, with its line ends
  CardParts sections;  // of "## " headings, trimmed; what comes before the first one is under ""
};

// Lines may end as on Windows.
ModelCard read_model_card(std::string text);

// A key's value without quotes and without a comment; "" if there is none.
std::string value_of(const ModelCard& card, std::string_view key);

}  // namespace coldframe
