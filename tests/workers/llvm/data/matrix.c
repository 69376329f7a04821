#define SIZE 24

static double left[SIZE][SIZE], right[SIZE][SIZE], product[SIZE][SIZE];

void multiply(void) {
  for (int i = 0; i < SIZE; i++)
    for (int j = 0; j < SIZE; j++) {
      double sum = 0.0;
      for (int k = 0; k < SIZE; k++) sum += left[i][k] * right[k][j];
      product[i][j] = sum;
    }
}

float norm(const float *restrict values, int count) {
  float sum = 0;
  for (int i = 0; i < count; i++) sum += values[i] * values[i];
  return sum;
}

int main(void) {
  for (int i = 0; i < SIZE; i++)
    for (int j = 0; j < SIZE; j++) left[i][j] = i + j, right[i][j] = i == j;
  multiply();
  return (int)(product[3][4] - 7.0);
}
