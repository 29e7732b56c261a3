-- What pandoc's Typst writer does not know by itself: the verdict's box, citations by number, tables' rules,
-- and words that begin a cell or a caption: unescaped there, a sign would make a heading or a list of them.

local function works(cite)
  local marks = {}
  for _, each in ipairs(cite.citations) do
    table.insert(marks, (each.id:gsub("^work", "")))
  end
  return pandoc.Str("[" .. table.concat(marks, ", ") .. "]")
end

local function boxed(div)
  if not div.classes:includes("verdict") then
    return nil
  end
  local blocks = pandoc.List({ pandoc.RawBlock("typst", "#verdict[") })
  blocks:extend(div.content)
  blocks:insert(pandoc.RawBlock("typst", "]"))
  return blocks
end

local function printed(word)
  return pandoc.RawInline("typst", (word.text:gsub("[!-/:-@\\%[%]^_`{-~]", "\\%0")))
end

return { { Cite = works, Div = boxed }, { Str = printed } }
