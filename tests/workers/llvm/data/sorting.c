static void swap(int *a, int *b) { int t = *a; *a = *b; *b = t; }

static void quicksort(int *values, int low, int high) {
  if (low >= high) return;
  int pivot = values[(low + high) / 2], i = low, j = high;
  while (i <= j) {
    while (values[i] < pivot) i++;
    while (values[j] > pivot) j--;
    if (i <= j) swap(&values[i++], &values[j--]);
  }
  quicksort(values, low, j);
  quicksort(values, i, high);
}

int main(int count, char **arguments) {
  int values[64];
  unsigned seed = (unsigned)count;
  for (int i = 0; i < 64; i++) values[i] = (int)((seed = seed * 1103515245u + 12345u) >> 16);
  quicksort(values, 0, 63);
  int wrong = 0;
  for (int i = 1; i < 64; i++) wrong += values[i - 1] > values[i];
  return wrong;
}
