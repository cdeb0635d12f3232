#include "common/text/model_card.h"

#include <gtest/gtest.h>

namespace coldframe {
namespace {

TEST(ModelCard, KeysAndSectionsAreTold) {
  const ModelCard card = read_model_card(
      "---\r\nlicense: 'cc-by-nc-4.0'  # weights\r\ntags:\r\n- video\r\n- echo\r\n---\r\n\r\n"
      "Before.\r\n\r\n## Use\r\n\r\nlicense: mit\r\n");
  EXPECT_EQ(value_of(card, "license"), "cc-by-nc-4.0");
  EXPECT_EQ(value_of(card, "tags"), "- video\n- echo");
  EXPECT_EQ(value_of(card, "language"), "");
  EXPECT_EQ(card.sections, (CardParts{{"", "Before.\n"}, {"Use", "license: mit\n"}}));
}

TEST(ModelCard, PagesWithoutFrontMatterHaveNoKeys) {
  for (const char* text :
       {"", "---", "license: mit\n", "# Title\n---\nlicense: mit\n---\n", "---\nlicense: mit\n"})
    EXPECT_TRUE(read_model_card(text).keys.empty()) << text;
}

TEST(ModelCard, ANameTakesItsPlaceOrTheEnd) {
  CardParts parts = {{"a", "1"}, {"b", "2"}};
  put(parts, "a", "3");
  put(parts, "c", "4");
  EXPECT_EQ(parts, (CardParts{{"a", "3"}, {"b", "2"}, {"c", "4"}}));
}

}  // namespace
}  // namespace coldframe
