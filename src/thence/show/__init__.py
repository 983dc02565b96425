"""Result rows -> tables, plots, pages. Pure: nothing here reads a file, starts a run or knows a terminal."""
